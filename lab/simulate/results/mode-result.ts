import { qosPenalties, qualityOfService } from '../../../core/policy/tokenflow/quality.ts'
import { type AnswerRecord, type AnswerWork, noWork } from '../world/answer-record.ts'
import { LogHistogram } from './log-histogram.ts'

const unreadAnswer = { tokens: 0, weightedTokens: 0, ttftMs: undefined, stalls: 0, stalledMs: 0 }

const sumNames = [
  'requests',
  'answered',
  'ended',
  'weightedTokens',
  'qos',
  'experience',
  'stalls',
  // Those of answers that have ended.
  'tokens',
  // Seconds that their readers need for the answers, stalls excluded.
  'readingS',
  // Answers of whose prompt the server has computed any.
  'atServer',
] as const
const histogramNames = [
  'ttftMs',
  // Between tokens, each gap counted. Tokens that come together have no time between them.
  'tbtMs',
  // The mean time between tokens of each answer.
  'answerTbtMs',
  // From the request to the last token.
  'latencyMs',
  // Of each answer: how long its reader waited for tokens after the first.
  'stalledMs',
  // DiSCo: what the readers of answers that changed sides had in hand then.
  'bufferedTokens',
] as const

/** Counts answers of one part of the workload, or of all. Mutable. */
export class ModeCounter {
  readonly #refused: Record<string, number> = {}
  readonly #work = noWork()
  readonly #sums = recordOf(sumNames, () => 0)
  readonly #histograms = recordOf(histogramNames, () => new LogHistogram())

  asked(): void {
    this.#sums.requests += 1
  }

  /** A first token has come, whatever becomes of the answer. */
  first(ttftMs: number): void {
    this.#histograms.ttftMs.add(ttftMs)
  }

  gap(ms: number, tokens: number): void {
    this.#histograms.tbtMs.add(ms)
    this.#histograms.tbtMs.add(0, tokens - 1)
  }

  ended(record: AnswerRecord): void {
    const sums = this.#sums
    sums.ended += 1
    if (record.serverPromptTokens > 0) sums.atServer += 1
    for (const field of Object.keys(this.#work) as (keyof AnswerWork)[]) this.#work[field] += record[field]
    if (record.refusal !== undefined) {
      addTo(this.#refused, { [record.refusal]: 1 })
      return
    }
    const { answerTbtMs, latencyMs, stalledMs, bufferedTokens } = this.#histograms
    sums.answered += 1
    sums.experience += record.qualityOfExperience
    sums.qos += qualityOfService([{ ...record, stalls: 0 }], 1, qosPenalties)
    sums.tokens += record.tokens
    sums.weightedTokens += record.weightedTokens
    sums.readingS += record.tokens / record.tokensPerS
    if (record.stalledMs > 0) sums.stalls += 1
    latencyMs.add(record.endedMs - record.atMs)
    stalledMs.add(record.stalledMs)
    if (record.migrations > 0) bufferedTokens.add(record.bufferedTokens / record.migrations)
    if (record.tokens > 1) answerTbtMs.add(record.tbtMs)
  }

  merge(other: ModeCounter): void {
    addTo(this.#refused, other.#refused)
    addTo(this.#work, other.#work)
    addTo(this.#sums, other.#sums)
    for (const name of histogramNames) this.#histograms[name].merge(other.#histograms[name])
  }

  /** What became of the requests. @param durationS of the run */
  result(durationS: number) {
    const perS = (count: number) => (durationS === 0 ? Number.NaN : count / durationS)
    const { ended, weightedTokens, qos, experience, stalls, ...sums } = this.#sums
    const { requests, answered, tokens } = sums
    const statistics = recordOf(histogramNames, (name) => this.#histograms[name].statistics)
    const unread = requests - statistics.ttftMs.count
    return {
      ...sums,
      ...statistics,
      /** By reason. */
      refused: { ...this.#refused } as Readonly<Record<string, number>>,
      /** Neither answered nor refused when the run ended. */
      open: requests - ended,
      /** Answers that stalled, as a share. */
      stalledShare: answered === 0 ? Number.NaN : stalls / answered,
      tokensPerS: perS(tokens),
      answersPerS: perS(answered),
      /** Weighted by TokenFlow Eq. 1. */
      effectiveTokensPerS: perS(weightedTokens),
      /** TokenFlow Eq. 2. */
      qos: perS(qos) + unread * qualityOfService([unreadAnswer], durationS, qosPenalties),
      /** Mean of all that are over, 0..1; a refused one has 0. */
      qualityOfExperience: ended === 0 ? Number.NaN : experience / ended,
      /** Sums over all answers. */
      work: { ...this.#work },
    }
  }
}
export type ModeResult = Readonly<ReturnType<ModeCounter['result']>>

const recordOf = <Name extends string, Value>(names: readonly Name[], valueFor: (name: Name) => Value) =>
  Object.fromEntries(names.map((name) => [name, valueFor(name)])) as Record<Name, Value>

/** Adds numbers by their names. */
function addTo(sums: Record<string, number>, more: Readonly<Record<string, number>>): void {
  for (const [name, value] of Object.entries(more)) sums[name] = (sums[name] ?? 0) + value
}
