export interface RolloutTerms {
  /** Devices that start in any 60 s, at first; >= 1. */
  readonly ratePerMinute: number
  /** Factor by which the rate grows each time that as many devices have succeeded as it starts in a minute; >= 1. */
  readonly growth: number
  /** Size of the first group: the other devices wait until all of it have ended. 0: there is none. */
  readonly first: number
  /** Whether the rollout pauses after the first group also where all of it succeeded. */
  readonly pauseAfterFirst: boolean
  /** The rollout is aborted where more than this share of the devices that have ended failed, in percent. */
  readonly abortAbovePercent: number
  /** Devices that must have ended before that share counts; >= 1. */
  readonly abortAfter: number
}

/** How a rollout ended for one device. Canceled: its job was; skipped: it never started. */
export const deviceOutcomes = ['succeeded', 'failed', 'canceled', 'skipped'] as const
export type DeviceOutcome = (typeof deviceOutcomes)[number]

export interface RecentStarts {
  readonly atMs: number
  readonly devices: number
}

/** The input of every decision about a rollout. Times are the bridge's wall clock in ms, because they outlive a restart. */
export interface RolloutState {
  readonly state: 'running' | 'paused' | 'aborted' | 'completed'
  /** Why it is paused or was aborted. */
  readonly reason: string | null
  readonly terms: RolloutTerms
  readonly devices: number
  /** Devices start in their order: place of the next one. */
  readonly next: number
  readonly outcomes: Readonly<Record<DeviceOutcome, number>>
  /** Devices that have succeeded and are still watched: their loss counts as a failure. */
  readonly soaking: number
  /** Whether devices beyond the first group may start. */
  readonly isFirstPassed: boolean
  /** Starts of the last 60 s, ascending. */
  readonly recentStarts: readonly RecentStarts[]
}

export type RolloutEvent =
  | { readonly kind: 'tick' }
  /** A device that had started has ended. */
  | { readonly kind: 'ended'; readonly outcome: DeviceOutcome }
  /** A device that has succeeded stayed healthy, and is watched no longer; or it was lost. */
  | { readonly kind: 'soaked' | 'lost' }
  | { readonly kind: 'pause' | 'abort'; readonly reason: string }
  | { readonly kind: 'resume' }

export type RolloutAction =
  /** Start the devices of these places. */
  | { readonly kind: 'start'; readonly from: number; readonly count: number }
  /** The devices from this place on never start. */
  | { readonly kind: 'skip'; readonly from: number }
  /** Cancel the jobs of the devices that have started and not ended. */
  | { readonly kind: 'cancel' }

/** A rollout's next state, and what to do once that state is stored. */
export interface RolloutStep {
  readonly rollout: RolloutState
  readonly actions: readonly RolloutAction[]
}

export function newRollout(terms: RolloutTerms, devices: number): RolloutState {
  const outcomes = { succeeded: 0, failed: 0, canceled: 0, skipped: 0 }
  const isFirstPassed = terms.first === 0
  return { state: 'running', reason: null, terms, devices, next: 0, outcomes, soaking: 0, isFirstPassed, recentStarts: [] }
}

export const isOpen = ({ state }: RolloutState): boolean => state === 'running' || state === 'paused'

/** Devices that have ended, or never start. */
export const endedDevices = ({ outcomes }: Pick<RolloutState, 'outcomes'>): number =>
  outcomes.succeeded + outcomes.failed + outcomes.canceled + outcomes.skipped

/** Devices that have started and not ended. */
export const devicesUnderWay = (rollout: RolloutState): number => rollout.next - endedDevices(rollout)
