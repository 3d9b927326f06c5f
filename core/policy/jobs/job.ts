import type { AttemptFailure } from './retry.ts'

export const liveStates = ['SENT', 'ACCEPTED', 'RUNNING'] as const
export const terminalStates = ['SUCCEEDED', 'FAILED', 'REJECTED', 'TIMED_OUT', 'CANCELED'] as const
export type JobState = 'QUEUED' | (typeof liveStates)[number] | (typeof terminalStates)[number]

/** The client's conditions for one job; durations in ms. */
export interface JobTerms {
  /** Maximum number of failed attempts, whatever the failure. */
  readonly attempts: number
  /** SENT: time for the device to acknowledge the job. */
  readonly acceptMs: number
  /** ACCEPTED: time for the device to start. An expired job is requeued without counting a failure: the device was busy. */
  readonly startMs: number
  /** RUNNING: maximum time between two progress reports. */
  readonly stepMs: number
  /** RUNNING: maximum time of the whole attempt. */
  readonly runMs: number
  /** Time for an absent device to return before its attempt fails. */
  readonly lostAfterMs: number
  /** Whether another device may replace one that disconnected or failed. */
  readonly replace: boolean
  /** Which result counts after a replacement: the first of any attempt, or only the replacement's. */
  readonly keep: 'any' | 'replacement'
}

/** The input of every decision about a job. Times are the bridge's wall clock in ms, because they outlive a restart. */
export interface Job {
  readonly state: JobState
  /** 1-based; 0 before the first dispatch. */
  readonly attempt: number
  /** The device of each attempt, in order. */
  readonly devices: readonly string[]
  /** Number of failed attempts by kind. */
  readonly failures: Readonly<Partial<Record<AttemptFailure, number>>>
  readonly terms: JobTerms
  /** Deadline of the whole job. */
  readonly endsByMs: number
  /** Next deadline; null exactly in a terminal state. */
  readonly dueMs: number | null
  /** QUEUED: earliest time of the next dispatch; null: now. */
  readonly notBeforeMs: number | null
  /** RUNNING: deadline of the attempt. */
  readonly runByMs: number | null
  /** When the attempt's device became absent; null while it is present. */
  readonly lostAtMs: number | null
  readonly error: JobError | null
}

export interface JobError {
  readonly code: string
  readonly message: string
}

/** What a device reports about an attempt. */
export type JobReport =
  | { readonly type: 'accepted' }
  | { readonly type: 'running' }
  | { readonly type: 'progress' }
  | { readonly type: 'succeeded' }
  | { readonly type: 'canceled' }
  | { readonly type: 'failed'; readonly failure: AttemptFailure; readonly error: JobError }

export type JobInput =
  | { readonly kind: 'dispatch'; readonly device: string }
  | { readonly kind: 'report'; readonly device: string; readonly attempt: number; readonly report: JobReport }
  | { readonly kind: 'present' | 'absent'; readonly device: string }
  /** Another device is idle and can start the job sooner. */
  | { readonly kind: 'requeue' }
  | { readonly kind: 'cancel' }
  | { readonly kind: 'tick' }

export type JobEffect =
  /** Send the attempt to its device, for the first time or again. */
  | { readonly kind: 'send'; readonly device: string; readonly attempt: number }
  /** Ask the device to stop the attempt. */
  | { readonly kind: 'cancelAttempt'; readonly device: string; readonly attempt: number }
  /** The result in the report becomes the job's result. */
  | { readonly kind: 'storeResult' }

/** A job's next state, and the effects to run after that state is stored. */
export interface JobStep {
  readonly job: Job
  readonly effects: readonly JobEffect[]
}

export const isTerminal = (state: JobState): boolean => terminalStates.some((terminal) => terminal === state)
export const isLive = (state: JobState): boolean => liveStates.some((live) => live === state)

/** The device of the current attempt. */
export const holderOf = ({ state, devices }: Job): string | null => (isLive(state) ? (devices.at(-1) ?? null) : null)

/** Whether the report ends its attempt. */
export const isFinalState = ({ type }: { readonly type: string }): boolean =>
  type === 'succeeded' || type === 'failed' || type === 'canceled'
