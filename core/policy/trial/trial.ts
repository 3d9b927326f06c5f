import type { TrialQuestion } from '../../wire/protocol/jobs.ts'

/** A change of the device that is kept only if the device is healthy with it. `T` is JSON: a version, or settings. */
export interface Trial<T> {
  readonly change: T
  /** A question that the device must answer with it. */
  readonly probe?: TrialQuestion | undefined
  /** The job that asked for it. */
  readonly job: string
  /** Starts of the agent with the change. */
  readonly starts: number
  /** Why the device is returning to what it had before. */
  readonly problem?: string | undefined
}

export interface TrialState<T> {
  /** What the device returns to; absent: what it was installed with. */
  readonly kept?: T | undefined
  readonly trial?: Trial<T> | undefined
  /** The last change that was tried; without `problem` it was kept. */
  readonly last?: { readonly change: T; readonly job: string; readonly problem?: string | undefined } | undefined
}

/** Starts without a decision after which a change has failed: the agent may have crashed each time, or lost power. */
export const maxTrialStarts = 3

export type TrialStep =
  | { readonly kind: 'begin' }
  | { readonly kind: 'wait' }
  /** The agent is about to start without the change. */
  | { readonly kind: 'restart' }
  | { readonly kind: 'kept' }
  | { readonly kind: 'failed'; readonly problem: string }

/**
 * What a job that asks for a change does next. The retry of a job does not try again what has failed; a new job does.
 * @param job its id, the same in all attempts
 */
export function nextTrialStep<T>({ kept, trial, last }: TrialState<T>, job: string, change: T): TrialStep {
  if (trial) return { kind: trial.problem === undefined ? 'wait' : 'restart' }
  if (last?.job === job && last.problem !== undefined && isSame(last.change, change))
    return { kind: 'failed', problem: last.problem }
  return kept !== undefined && isSame(kept, change) ? { kind: 'kept' } : { kind: 'begin' }
}

export const beginTrial = <T>(state: TrialState<T>, job: string, change: T, probe: TrialQuestion | undefined): TrialState<T> => ({
  ...state,
  trial: { change, job, probe, starts: 0 },
})

/** The change has failed: the next start is without it. */
export function undoTrial<T>({ trial, ...state }: TrialState<T>, problem: string): TrialState<T> {
  return trial ? { ...state, trial: { ...trial, problem } } : state
}

/** The agent starts. @returns the state, whose trial has ended if the change was undone or there were too many starts */
export function startTrial<T>(state: TrialState<T>): TrialState<T> {
  const { trial } = state
  if (!trial) return state
  if (trial.problem !== undefined) return failTrial(state, trial.problem)
  if (trial.starts >= maxTrialStarts) return failTrial(state, `the agent ended ${trial.starts} times before it was healthy`)
  return { ...state, trial: { ...trial, starts: trial.starts + 1 } }
}

export function keepTrial<T>({ trial, ...state }: TrialState<T>): TrialState<T> {
  return trial ? { kept: trial.change, last: { change: trial.change, job: trial.job } } : state
}

/** The agent has started without the change. @param problem unless another one was found before */
export function failTrial<T>({ kept, last, trial }: TrialState<T>, problem: string): TrialState<T> {
  return trial ? { kept, last: { change: trial.change, job: trial.job, problem: trial.problem ?? problem } } : { kept, last }
}

const isSame = (a: unknown, b: unknown) => JSON.stringify(sorted(a)) === JSON.stringify(sorted(b))

/** With the fields of objects in order. */
function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
}
