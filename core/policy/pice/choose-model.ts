import { expansionS } from './speeds.ts'
import type { ExpandingDevice, SmallModelSpeed } from './state.ts'

/** Expansions that a device is about to make. */
export interface Expanding {
  readonly expectedTokens: number
  /** Sequences decoded together. */
  readonly sequences: number
  /** f(l) − f(|r|), less the time already spent on it. Negative: too late already. */
  readonly budgetS: number
  /** Whether fewer expansions wait than the queue holds: else a switch would keep others waiting. */
  readonly mayUpgrade: boolean
}

/**
 * The small model for an expansion (PICE, Algorithm 2), with the time to open it. Too slow: the ablest smaller model that keeps
 * the budget, and the quickest of all no larger where none does. In time: the next larger model that keeps it, if the queue
 * has room. With no model open, every choice has to be opened: the ablest that keeps the budget.
 * @param device its models ascend by ability; at least one
 */
export function chooseModel(
  { models, current }: Pick<ExpandingDevice, 'models' | 'current'>,
  { expectedTokens, sequences, budgetS, mayUpgrade }: Expanding,
): SmallModelSpeed {
  const secondsOf = (model: SmallModelSpeed) => switchS(model, current) + expansionS(model, expectedTokens, sequences)
  const isInTime = (model: SmallModelSpeed) => secondsOf(model) <= budgetS
  const at = models.findIndex(({ model }) => model === current)
  const open = models[at]
  if (open && isInTime(open)) return (mayUpgrade && models.slice(at + 1).find(isInTime)) || open
  const smaller = open ? models.slice(0, at) : models
  // The open model before others that take as long.
  const quickest = () =>
    [open, ...smaller].filter((model) => model !== undefined).reduce((a, b) => (secondsOf(b) < secondsOf(a) ? b : a))
  return smaller.findLast(isInTime) ?? quickest()
}

/** Time to open a model. */
export const switchS = ({ model, loadS }: SmallModelSpeed, current: string | undefined): number => (model === current ? 0 : loadS)
