import type { SentencePlace } from '../../wire/protocol/expansion.ts'
import type { DeviceHints, DevicePresence } from './fleet-device.ts'
import type { AskedSketch } from './pending-sketch.ts'
import type { SmallModelSpeed } from './state.ts'

/** What the job queue tells of devices. Those that are not named hold nothing. */
export interface QueueLimits {
  readonly held: readonly (readonly [device: string, jobs: number])[]
  /** Devices that have stored as much as they may today. */
  readonly exhausted: readonly string[]
}
export const noLimits: QueueLimits = { held: [], exhausted: [] }

/** Where a job has a sketch. */
export interface SketchPlace {
  readonly job: string
  readonly sketch: number
}

export type ExpansionInput =
  /** An answer asks for its sketch to be expanded. @property places earlier jobs that go on with it; undefined: it is new */
  | ({ readonly kind: 'begin'; readonly places?: readonly SketchPlace[] | undefined } & AskedSketch)
  /** It wants no more. */
  | { readonly kind: 'end'; readonly id: string }
  | ({ readonly kind: 'plan' } & QueueLimits)
  | { readonly kind: 'presence'; readonly device: string; readonly presence: DevicePresence | null }
  | { readonly kind: 'all-absent' }
  | ({ readonly kind: 'hints'; readonly device: string } & DeviceHints)
  /** @property speeds as measured, and corrected since, without abilities; null: there is no profile */
  | { readonly kind: 'measured'; readonly device: string; readonly speeds: readonly SmallModelSpeed[] | null }
  /** A profile lacks what the device has used. */
  | { readonly kind: 'outdated'; readonly device: string }
  /** What a model has shown. @property device absent: on all. @property ageMs of the last sentence that counts */
  | {
      readonly kind: 'ability'
      readonly device?: string
      readonly model: string
      readonly confidence: number
      readonly sentences: number
      readonly ageMs: number
    }
  /** A job of an earlier start of the bridge is still out. @property received candidates of its sketches */
  | {
      readonly kind: 'adopt'
      readonly job: string
      readonly device: string
      readonly size: number
      readonly expected: number
      readonly isDispatched: boolean
      readonly received: readonly SentencePlace[]
    }
  /** The device was sent the job; it has accepted it; the job is queued again, for the same device. */
  | { readonly kind: 'sent' | 'accepted' | 'requeued'; readonly job: string }
  | ({ readonly kind: 'sentence'; readonly job: string } & SentencePlace)
  /** @property sentences all of them, or those that have not been told. @property model that the device used last */
  | {
      readonly kind: 'succeeded'
      readonly job: string
      readonly sentences: readonly SentencePlace[]
      readonly model?: string | undefined
    }
  /** @property isOver false: the queue would try it again. @property isRejected the device has failed at it or rejected it */
  | { readonly kind: 'failed'; readonly job: string; readonly isOver: boolean; readonly isRejected: boolean }
  /** It could not be stored. */
  | { readonly kind: 'unsubmitted'; readonly job: string }
  | ({ readonly kind: 'tick' } & QueueLimits)

/** Why a sketch is not expanded. */
export type ExpansionFailure =
  | { readonly reason: 'too-large'; readonly bytes: number }
  | { readonly reason: 'queue-full'; readonly waiting: number }
  | { readonly reason: 'attempts'; readonly attempts: number }
  | { readonly reason: 'no-device' | 'late' | 'unsubmitted' }

/** What a job expands of a sketch. */
export interface SubmittedSketch {
  readonly id: string
  readonly sentences: readonly number[]
}

export type ExpansionAction =
  /** A job for a device. @property endsInMs its deadline. @property acceptMs for the device to accept it */
  | {
      readonly kind: 'submit'
      readonly job: string
      readonly device: string
      readonly sketches: readonly SubmittedSketch[]
      readonly endsInMs: number
      readonly acceptMs: number
    }
  | { readonly kind: 'cancel'; readonly job: string }
  /** The sentence is new to this answer. */
  | ({ readonly kind: 'deliver'; readonly id: string; readonly job: string } & SentencePlace)
  /** All has arrived. */
  | { readonly kind: 'done'; readonly id: string }
  | ({ readonly kind: 'fail'; readonly id: string } & ExpansionFailure)
  /** What the device has measured while it expanded this counts. */
  | { readonly kind: 'learn'; readonly job: string }
  /** A job had not ended after `overrun` (> 1) times its predicted time, and was given up or failed. @property model that its device was predicted to use */
  | { readonly kind: 'exceeded'; readonly device: string; readonly model: string; readonly overrun: number }
  | { readonly kind: 'profile'; readonly device: string }
