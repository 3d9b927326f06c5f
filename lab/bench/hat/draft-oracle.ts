import { type Random, seededRandom } from '../../../core/kit/base/random.ts'
import { LinkRates } from '../../../core/policy/estimate/link-rates.ts'
import { DeviceSpeed } from '../../../core/policy/hat/device-speed.ts'
import { roundCostsOf } from '../../../core/policy/hat/draft-ahead-steps.ts'
import { type DraftChain, emptyChain, extended, isComplete } from '../../../core/policy/hat/draft-chain.ts'
import { defaultDraftLimit } from '../../../core/policy/hat/draft-gain.ts'
import { DraftRounds, type DraftRule } from '../../../core/policy/hat/draft-rounds.ts'
import { headerBytes } from '../../../core/wire/protocol/frame.ts'
import type { ForcedAnswer, ForcedDraft } from './forced-drafts.ts'

/** The drafts after each token of an answer but the last. */
type Answer = readonly ForcedDraft[]

/** What the rounds of a device cost, beside the round trip; seconds. */
export interface DraftCosts {
  readonly bytesPerToken: number
  readonly upBytesPerS: number
  readonly downBytesPerS: number
  /** Of a guess, and of a row of the device's own layers; the pending token has such a row, too, and the head as much again. */
  readonly guessS: number
  readonly feedS: number
  /** Of the cloud for a verification. */
  readonly cloudS: number
}

/** A round trip in seconds, by the tokens before it: whatever the rule, it meets the same delays. */
export type Delay = (tokens: number) => number

const answerSets = ['all', 'without loops'] as const
/** The paper's mean rates, as bytes per second for a hidden state of one byte. */
const meanRates = { up: 7.5e6 / 8_192, down: 12.5e6 / 8_192 }

/** A device that drafts a token in 3.5 ms, on links with the paper's mean rates. @param bytesPerToken of a hidden state */
export const usualCosts = (bytesPerToken: number): DraftCosts => ({
  bytesPerToken,
  upBytesPerS: meanRates.up * bytesPerToken,
  downBytesPerS: meanRates.down * bytesPerToken,
  guessS: 0.002,
  feedS: 0.0015,
  cloudS: 0.005,
})

/** Seconds between two pings of a connection. */
const pingS = 20

export const delays: Readonly<Record<string, Delay>> = {
  ...Object.fromEntries([0, 5, 20, 60, 150, 300].map((ms) => [`${ms} ms`, () => ms / 1_000])),
  'a walk of 0 to 300 ms': walk(seededRandom(5)),
  'jumps between 5 and 300 ms': (tokens) => (Math.floor(tokens / 100) % 2 === 0 ? 0.005 : 0.3),
}

/** A step of up to 10 ms with each token. */
function walk(random: Random): Delay {
  const steps: number[] = [0.15]
  return (tokens) => {
    while (steps.length <= tokens) steps.push(Math.min(0.3, Math.max(0, steps.at(-1)! + 0.02 * (random.next() - 0.5))))
    return steps[tokens]!
  }
}

/** How long a draft was, and the steps of the drafter that it took. */
interface Drafted {
  readonly chain: DraftChain
  readonly steps: number
}

function drafted({ steps }: ForcedDraft, rule: DraftRule): Drafted {
  let chain = emptyChain
  let taken = 0
  while (!isComplete(chain, rule)) {
    const guesses = steps[taken] ?? []
    chain = extended(
      chain,
      guesses.map((guess) => ({ ...guess, endsText: false, alternatives: [] })),
      rule,
    )
    if (guesses.length > 0) taken += 1
  }
  return { chain, steps: taken }
}

const fixedLength = (limit: number): DraftRule => ({ limit, takes: () => true, continues: () => true })

/** Seconds of a round by the costs, its bytes and the cloud's time included. */
function roundS({ chain, steps }: Drafted, costs: DraftCosts, rttS: number) {
  const { guessS, feedS, cloudS, upBytesPerS, downBytesPerS, bytesPerToken } = costs
  const tokens = chain.guesses.length
  const bytes = headerBytes + (1 + tokens) * bytesPerToken
  const draftS = steps * guessS + tokens * feedS
  const tripS = rttS + cloudS + bytes / upBytesPerS + bytes / downBytesPerS
  return { bytes, draftS, tripS, allS: feedS + draftS + tripS + guessS }
}

/** All answers one after the other, each from its first token to its last. */
function played(
  answers: readonly Answer[],
  delay: Delay,
  ruleOf: (limit: number, atS: number, rttS: number) => DraftRule,
  costs: DraftCosts,
  onRound: (round: Drafted, accepted: number, sentS: number, rttS: number) => void = () => {},
): { tokens: number; seconds: number } {
  let [tokens, seconds] = [0, 0]
  for (const answer of answers)
    for (let at = 0; at < answer.length; ) {
      const rttS = delay(tokens)
      const round = drafted(answer[at]!, ruleOf(Math.min(defaultDraftLimit, answer.length - at - 1), seconds, rttS))
      const accepted = Math.min(answer[at]!.accepted, round.chain.guesses.length)
      const { allS } = roundS(round, costs, rttS)
      onRound(round, accepted, seconds, rttS)
      seconds += allS
      tokens += accepted + 1
      at += accepted + 1
    }
  return { tokens, seconds }
}

/** Seconds per token of the agent's own rule, by what it measures of the delay. */
function ownS(answers: readonly Answer[], delay: Delay, costs: DraftCosts): number {
  const [rounds, speed] = [new DraftRounds(), new DeviceSpeed()]
  let pingedS = Number.NEGATIVE_INFINITY
  const rates = new LinkRates(() => {
    pingedS = Number.NEGATIVE_INFINITY
  })
  rates.recordRoundTrip(delay(0))
  rates.recordProbe({ bytesUp: 65_536, bytesDown: 0, sentS: 0, answeredS: delay(0) + 65_536 / costs.upBytesPerS })
  const ruleOf = (limit: number, atS: number, rttS: number) => {
    if (atS >= pingedS + pingS) {
      rates.recordRoundTrip(rttS)
      pingedS = atS
    }
    const { draftStepS } = speed
    const { upBytesPerS, downBytesPerS, cloudS, verificationS } = rates
    const conditions = { upBytesPerS, downBytesPerS, rttS: rates.rttS, cloudS, verificationS, draftStepS }
    return rounds.rule(roundCostsOf(costs.bytesPerToken, rounds.overheadS, conditions), limit)
  }
  const { tokens, seconds } = played(answers, delay, ruleOf, costs, (round, accepted, atS, rttS) => {
    const { guesses } = round.chain
    const { bytes, draftS, tripS } = roundS(round, costs, rttS)
    const sentS = atS + costs.feedS + draftS
    const { cloudS, guessS, feedS } = costs
    rates.recordExchange({ bytesUp: bytes, bytesDown: bytes, sentS, answeredS: sentS + tripS, cloudS, isVerification: true })
    speed.recordDraft(Math.max(round.steps, guesses.length), draftS)
    rounds.record({ tokens: accepted + 1, draft: guesses, prepared: 0, accepted, overheadS: feedS + guessS, feedS })
  })
  return seconds / tokens
}

/** Seconds per token where each draft has the length that is best for the answer, as only hindsight knows: a shortest path. */
function clairvoyantS(answers: readonly Answer[], rttS: number, costs: DraftCosts): number {
  let [tokens, seconds] = [0, 0]
  for (const answer of answers) {
    const left = Array.from({ length: answer.length + 1 }, () => 0)
    for (let at = answer.length - 1; at >= 0; at -= 1) {
      const longest = Math.min(answer[at]!.accepted, answer.length - at - 1, defaultDraftLimit)
      const ways = Array.from({ length: longest + 1 }, (_, length) => {
        return roundS(drafted(answer[at]!, fixedLength(length)), costs, rttS).allS + left[at + length + 1]!
      })
      left[at] = Math.min(...ways)
    }
    tokens += answer.length
    seconds += left[0]!
  }
  return seconds / tokens
}

/** One delay: seconds per token of the own rule, and of what hindsight knows. */
export interface OracleRow {
  readonly delay: string
  readonly answers: (typeof answerSets)[number]
  readonly ownS: number
  /** Of the best length for all rounds, which is the best arm of a bandit. */
  readonly fixedS: number
  readonly bestLength: number
  /** Of the best length of each round; undefined where the delay drifts. */
  readonly clairvoyantS: number | undefined
}

/** @param forced with drafts of the maximum length after each token */
export function compareWithOracles(forced: readonly ForcedAnswer[], costs: DraftCosts): OracleRow[] {
  return answerSets.flatMap((set) => {
    const answers = forced.filter(({ looping }) => set === 'all' || !looping).map(({ drafts }) => drafts)
    return answers.flat().length === 0 ? [] : rowsOf(set, answers, costs)
  })
}

function rowsOf(set: OracleRow['answers'], answers: readonly Answer[], costs: DraftCosts): OracleRow[] {
  return Object.entries(delays).map(([name, delay]) => {
    const fixed = Array.from({ length: defaultDraftLimit + 1 }, (_, length) => {
      const { tokens, seconds } = played(answers, delay, (limit) => fixedLength(Math.min(length, limit)), costs)
      return seconds / tokens
    })
    const fixedS = Math.min(...fixed)
    const isConstant = /^\d+ ms$/.test(name)
    return {
      delay: name,
      answers: set,
      ownS: ownS(answers, delay, costs),
      fixedS,
      bestLength: fixed.indexOf(fixedS),
      clairvoyantS: isConstant ? clairvoyantS(answers, delay(0), costs) : undefined,
    }
  })
}

/** The worst of all delays; null without any. */
export const draftOverOracle = (rows: readonly OracleRow[]): number | null =>
  rows.length === 0 ? null : Math.max(...rows.map(({ ownS, fixedS }) => ownS / fixedS))

export function draftOverClairvoyant(rows: readonly OracleRow[]): number | null {
  const ratios = rows.flatMap(({ ownS, clairvoyantS }) => (clairvoyantS === undefined ? [] : ownS / clairvoyantS))
  return ratios.length === 0 ? null : Math.max(...ratios)
}
