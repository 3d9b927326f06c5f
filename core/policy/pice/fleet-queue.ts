import { switchS } from './choose-model.ts'
import { expansionS } from './speeds.ts'
import type { ExpandingDevice, FleetView, SmallModelSpeed, WaitingExpansion } from './state.ts'

/** How answers are expanded: each candidate of each sentence in a sequence of its own. */
export interface ExpansionTerms {
  readonly tokensPerSentence: number
  /** Expansions of each sentence that the ensemble chooses from. */
  readonly candidates: number
}

/** Shorter times are below what is measured; 0 would make a device infinitely fast. */
const minS = 1e-6

/** Seconds in which one of a device's models expands an answer of so many tokens, opening the model included. */
export function deviceS(device: ExpandingDevice, model: SmallModelSpeed, tokens: number, terms: ExpansionTerms): number {
  const { tokensPerSentence, candidates } = terms
  const sequences = Math.max(1, Math.round(tokens / tokensPerSentence)) * candidates
  return Math.max(minS, switchS(model, device.current) + expansionS(model, tokens * candidates, sequences))
}

/** With the model that is open, or the smallest. */
export function usualS(device: ExpandingDevice, tokens: number, terms: ExpansionTerms): number {
  const open = device.models.find(({ model }) => model === device.current)
  return deviceS(device, open ?? device.models[0]!, tokens, terms)
}

/** Whether a device keeps all budgets of a batch: its sketches are finished together. */
export const keepsBudgets =
  (device: ExpandingDevice, terms: ExpansionTerms) =>
  (batch: readonly WaitingExpansion[]): boolean => {
    const tookS = usualS(
      device,
      batch.reduce((sum, { expectedTokens }) => sum + expectedTokens, 0),
      terms,
    )
    return batch.every(({ budgetS = Number.POSITIVE_INFINITY }) => device.networkS + tookS <= budgetS)
  }

/**
 * When the devices will have worked off each of the expansions that wait, in seconds from now, ascending. All devices together
 * work off one after the other, each device at its own speed once it has finished what it was given; an expansion begins when its
 * sketch is written. The last is the queue term of PICE Eq. 2: Σ c·f(l_j) / (p·N) for equal devices without other work.
 */
export function queueS({ devices, waiting }: FleetView, terms: ExpansionTerms): readonly number[] {
  const speeds = new Map<number, readonly Speed[]>()
  const speedsFor = (tokens: number) => {
    const of = speeds.get(tokens) ?? devices.map((device) => ({ freeS: device.busyS, perS: 1 / usualS(device, tokens, terms) }))
    speeds.set(tokens, of)
    return of
  }
  let nowS = 0
  return waiting
    .map(({ expectedTokens, arrivesInS = 0 }) => ({ expectedTokens, arrivesInS }))
    .sort((a, b) => a.arrivesInS - b.arrivesInS)
    .map(({ expectedTokens, arrivesInS }) => {
      nowS = finishedS(speedsFor(expectedTokens), Math.max(nowS, arrivesInS))
      return nowS
    })
}

/**
 * The waiting expansions that an idle device should take: those that it finishes no later than the others would, after what they
 * are busy with and all older ones. Among equal devices these are all of them.
 * @param maxWaitS one that has waited longer, and longer than the device takes for it, is always worth it: the others are not as
 * fast as they were measured
 */
export function worthTaking<W extends WaitingExpansion>(
  idle: ExpandingDevice,
  devices: readonly ExpandingDevice[],
  waiting: readonly W[],
  maxWaitS: number,
  terms: ExpansionTerms,
): W[] {
  const others = devices.filter(({ device }) => device !== idle.device)
  const oldestFirst = [...waiting].sort((a, b) => b.waitedS - a.waitedS)
  if (others.length === 0) return oldestFirst
  const here = oldestFirst.map(({ id, expectedTokens, waitedS }) => ({ id, expectedTokens, waitedS }))
  const queue = queueS({ devices: others, waiting: here }, terms)
  return oldestFirst.filter(({ expectedTokens, waitedS }, at) => {
    const takesS = (device: ExpandingDevice) => device.networkS + usualS(device, expectedTokens, terms)
    const othersS = others.map((other) => Math.max(queue[at - 1] ?? 0, other.busyS) + takesS(other))
    const ownS = takesS(idle)
    return ownS <= Math.min(...othersS) || waitedS >= Math.max(maxWaitS, ownS)
  })
}

interface Speed {
  /** When the device has finished what it was given. */
  readonly freeS: number
  /** Expansions per second. */
  readonly perS: number
}

/** When all devices together have worked off one expansion that they begin at `fromS`. */
function finishedS(speeds: readonly Speed[], fromS: number): number {
  const ascending = [...speeds].sort((a, b) => a.freeS - b.freeS)
  let nowS = fromS
  let left = 1
  let perS = 0
  for (const { freeS, ...device } of ascending) {
    const doneS = nowS + left / perS
    if (doneS <= freeS) return doneS
    left -= perS * Math.max(0, freeS - nowS)
    nowS = Math.max(nowS, freeS)
    perS += device.perS
  }
  return nowS + left / perS
}
