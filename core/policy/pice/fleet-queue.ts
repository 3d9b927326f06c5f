import { switchS } from './choose-model.ts'
import { expansionS } from './speeds.ts'
import type { ExpandingDevice, FleetView, SmallModelSpeed, WaitingExpansion } from './state.ts'

/** How answers are expanded: each candidate of each sentence in a sequence of its own. */
export interface ExpansionTerms {
  readonly tokensPerSentence: number
  /** Expansions of each sentence that the ensemble chooses from. */
  readonly candidates: number
}

/** Measured times are noisy: a device leaves an expansion that it has in time to others only if it takes this many times as long. */
const minAdvantage = 1.5
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
  const byEnd = [...devices].sort((a, b) => a.busyS - b.busyS)
  // Expansions per second of the first device, the first two, …
  const rates = new Map<number, readonly number[]>()
  const ratesFor = (tokens: number) => {
    let perS = 0
    const known = rates.get(tokens) ?? byEnd.map((device) => (perS += 1 / usualS(device, tokens, terms)))
    rates.set(tokens, known)
    return known
  }
  let nowS = 0
  let free = 0
  const workOff = (perS: readonly number[]) => {
    for (let left = 1; ; ) {
      while (free < byEnd.length && byEnd[free]!.busyS <= nowS) free += 1
      const rate = perS[free - 1] ?? 0
      const nextS = byEnd[free]?.busyS ?? Number.POSITIVE_INFINITY
      const doneS = nowS + left / rate
      if (doneS <= nextS) return doneS
      left -= rate * (nextS - nowS)
      nowS = nextS
    }
  }
  return waiting
    .map(({ expectedTokens, arrivesInS = 0 }) => ({ expectedTokens, arrivesInS }))
    .sort((a, b) => a.arrivesInS - b.arrivesInS)
    .map(({ expectedTokens, arrivesInS }) => {
      nowS = Math.max(nowS, arrivesInS)
      nowS = workOff(ratesFor(expectedTokens))
      return nowS
    })
}

/**
 * The waiting expansions that an idle device should take: those that the others would not finish much sooner, after what they are
 * busy with and all older ones. Among equal devices these are all of them.
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
  return oldestFirst.filter(({ expectedTokens, waitedS, budgetS = Number.POSITIVE_INFINITY }, at) => {
    const takesS = (device: ExpandingDevice) => device.networkS + usualS(device, expectedTokens, terms)
    const ownS = takesS(idle)
    const othersS = Math.min(...others.map((other) => Math.max(queue[at - 1] ?? 0, other.busyS) + takesS(other)))
    const isLateHere = ownS > budgetS && othersS <= budgetS
    return ownS <= (isLateHere ? othersS : minAdvantage * othersS) || waitedS >= Math.max(maxWaitS, ownS)
  })
}
