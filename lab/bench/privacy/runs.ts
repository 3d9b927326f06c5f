import type { FramesRun } from './frames-runs.ts'
import type { AttackRun, PrivacyRun } from './measure.ts'

type Key = Pick<AttackRun, 'model' | 'split' | 'sending' | 'text'>
export const plain: Key = { model: 'demo', split: 1, sending: 'fp16', text: 'prompt' }

/** @param key of those that are wanted; absent: all */
export const attacksOf = (runs: readonly PrivacyRun[], key: Partial<Key> = {}): AttackRun[] =>
  runs.filter(
    (run): run is AttackRun =>
      run.kind === 'attack' && Object.entries(key).every(([name, value]) => run[name as keyof Key] === value),
  )

export const framesOf = (runs: readonly PrivacyRun[]): FramesRun[] => runs.filter((run) => run.kind === 'frames')

/** By the attack that recovers most. */
export const best = (runs: readonly PrivacyRun[], key: Key): AttackRun | undefined =>
  attacksOf(runs, key).reduce<AttackRun | undefined>((most, run) => (most && most.top1 >= run.top1 ? most : run), undefined)

export const recoveredAt = (runs: readonly PrivacyRun[], key: Partial<Key>): number | null =>
  best(runs, { ...plain, ...key })?.top1 ?? null

/** Whether it attacks that way of sending by undoing it first. */
export const undoes = ({ sending }: AttackRun, other: string): boolean => sending.startsWith(`${other} undone`)
