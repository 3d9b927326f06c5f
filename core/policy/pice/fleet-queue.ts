import { switchS } from './choose-model.ts'
import { expansionS } from './speeds.ts'
import type { ExpandingDevice, SmallModelSpeed, WaitingExpansion } from './state.ts'

/** How answers are expanded: each candidate of each sentence in a sequence of its own. */
export interface ExpansionTerms {
  readonly tokensPerSentence: number
  /** Expansions of each sentence that the ensemble chooses from. */
  readonly candidates: number
  /** Of a conversation, in tokens of the LLM; absent: short. */
  readonly promptTokens?: number
}

/** Of the prompts that devices are profiled with. */
const profiledPromptTokens = 64

/** c + k·l: what a prompt adds to the TTFT of a short one. */
const promptS = ({ prefillS = 0 }: SmallModelSpeed, { promptTokens = 0 }: ExpansionTerms): number =>
  prefillS * Math.max(0, promptTokens - profiledPromptTokens)

/** Whether prompt and one sentence fit into the model's context. */
export const fits = ({ contextTokens = Number.POSITIVE_INFINITY }: SmallModelSpeed, terms: ExpansionTerms): boolean =>
  (terms.promptTokens ?? 0) + terms.tokensPerSentence <= contextTokens

/** Measured times are noisy: a device leaves an expansion that it has in time to others only if it takes this many times as long. */
const minAdvantage = 1.5
/** Shorter times are below what is measured; 0 would make a device infinitely fast. */
const minS = 1e-6

/** Seconds in which one of a device's models expands an answer of so many tokens, opening the model included. */
export function deviceS(device: ExpandingDevice, model: SmallModelSpeed, tokens: number, terms: ExpansionTerms): number {
  const { tokensPerSentence, candidates } = terms
  const sequences = Math.max(1, Math.round(tokens / tokensPerSentence)) * candidates
  return Math.max(
    minS,
    switchS(model, device.current) + promptS(model, terms) + expansionS(model, tokens * candidates, sequences),
  )
}

/** With the model that is open, or the smallest. */
export function usualS(device: ExpandingDevice, tokens: number, terms: ExpansionTerms): number {
  return deviceS(device, usualModel(device), tokens, terms)
}

/** That is open, or else its first one. */
export const usualModel = ({ models, current }: ExpandingDevice): SmallModelSpeed =>
  models.find(({ model }) => model === current) ?? models[0]!

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

/** What the devices of a fleet take for expansions of one length. */
interface Times {
  /** By place: seconds of one of the devices, network included. */
  readonly takesS: Float64Array
  /** By place: expansions per second of all devices there. */
  readonly perS: Float64Array
}

/** The devices of a fleet, prepared for many questions about what waits for them. */
export class FleetQueue {
  readonly terms: ExpansionTerms
  /** Ascending by the end of what they are busy with: what follows calls an index of it a place. */
  readonly #byEnd: readonly ExpandingDevice[]
  readonly #busyS: Float64Array
  readonly #places: ReadonlyMap<string, number>
  /** By the length of an expansion. */
  readonly #times = new Map<number, Times>()

  constructor(devices: readonly ExpandingDevice[], terms: ExpansionTerms) {
    this.terms = terms
    this.#byEnd = [...devices].sort((a, b) => a.busyS - b.busyS)
    this.#busyS = Float64Array.from(this.#byEnd, ({ busyS }) => busyS)
    this.#places = new Map(this.#byEnd.map(({ device }, place) => [device, place]))
  }

  /** Whether there is no other device. */
  isAlone(device: string): boolean {
    return this.#byEnd.every((other) => other.device === device && (other.count ?? 1) === 1)
  }

  /**
   * When the devices will have worked off each of the expansions that wait, in seconds from now, ascending. All devices together
   * work off one after the other, each device at its own speed once it has finished what it was given; an expansion begins when its
   * sketch is written. The last is the queue term of PICE Eq. 2: Σ c·f(l_j) / (p·N) for equal devices without other work.
   * @param without a device that takes no part
   */
  queueS(
    waiting: readonly Pick<WaitingExpansion, 'expectedTokens' | 'arrivesInS'>[],
    without: string | undefined = undefined,
  ): readonly number[] {
    const places = this.#byEnd.length
    const left = this.#withoutOne(without)
    let nowS = 0
    let free = 0
    const workOff = ({ perS }: Times) => {
      const rateOf = (place: number) => (place === left.place ? left.share : 1) * perS[place]!
      let rate = 0
      for (let place = 0; place < free; place += 1) rate += rateOf(place)
      for (let work = 1; ; ) {
        for (; free < places && this.#busyS[free]! <= nowS; free += 1) rate += rateOf(free)
        const nextS = free < places ? this.#busyS[free]! : Number.POSITIVE_INFINITY
        const doneS = nowS + work / rate
        if (doneS <= nextS) return doneS
        work -= rate * (nextS - nowS)
        nowS = nextS
      }
    }
    return [...waiting]
      .sort((a, b) => (a.arrivesInS ?? 0) - (b.arrivesInS ?? 0))
      .map(({ expectedTokens, arrivesInS = 0 }) => {
        nowS = Math.max(nowS, arrivesInS)
        nowS = workOff(this.#timesOf(expectedTokens))
        return nowS
      })
  }

  /** The least seconds until a device has expanded so many tokens, that begins no sooner than then. @param without it takes no part */
  soonestS(tokens: number, fromS: number, without: string | undefined = undefined): number {
    const { takesS } = this.#timesOf(tokens)
    const left = this.#withoutOne(without)
    let leastS = Number.POSITIVE_INFINITY
    for (let place = 0; place < takesS.length; place += 1)
      if (place !== left.place || left.share > 0) leastS = Math.min(leastS, Math.max(fromS, this.#busyS[place]!) + takesS[place]!)
    return leastS
  }

  /** Where one device is missing, and which share of those there is left. */
  #withoutOne(device: string | undefined): { readonly place: number; readonly share: number } {
    const place = device === undefined ? undefined : this.#places.get(device)
    if (place === undefined) return { place: -1, share: 1 }
    const { count = 1 } = this.#byEnd[place]!
    return { place, share: (count - 1) / count }
  }

  #timesOf(tokens: number): Times {
    const known = this.#times.get(tokens)
    if (known) return known
    const usual = this.#byEnd.map((device) => usualS(device, tokens, this.terms))
    const times = {
      takesS: Float64Array.from(this.#byEnd, ({ networkS }, place) => networkS + usual[place]!),
      perS: Float64Array.from(this.#byEnd, ({ count = 1 }, place) => count / usual[place]!),
    }
    this.#times.set(tokens, times)
    return times
  }
}

/**
 * The waiting expansions that an idle device should take: those that the others would not finish much sooner, after what they are
 * busy with and all older ones. Among equal devices these are all of them.
 * @param fleet all devices, this one included
 * @param maxWaitS one that has waited longer, and longer than the device takes for it, is always worth it: the others are not as
 * fast as they were measured
 */
export function worthTaking<W extends WaitingExpansion>(
  idle: ExpandingDevice,
  fleet: FleetQueue,
  waiting: readonly W[],
  maxWaitS: number,
): W[] {
  const oldestFirst = [...waiting].sort((a, b) => b.waitedS - a.waitedS)
  if (fleet.isAlone(idle.device)) return oldestFirst
  const queue = fleet.queueS(
    oldestFirst.map(({ expectedTokens }) => ({ expectedTokens })),
    idle.device,
  )
  return oldestFirst.filter(({ expectedTokens, waitedS, budgetS = Number.POSITIVE_INFINITY }, at) => {
    const ownS = idle.networkS + usualS(idle, expectedTokens, fleet.terms)
    const othersS = fleet.soonestS(expectedTokens, queue[at - 1] ?? 0, idle.device)
    const isLateHere = ownS > budgetS && othersS <= budgetS
    return ownS <= (isLateHere ? othersS : minAdvantage * othersS) || waitedS >= Math.max(maxWaitS, ownS)
  })
}
