import { qosPenalties, qualityOfService } from '../../../core/policy/tokenflow/quality.ts'
import { type AnswerRecord, type AnswerWork, noWork } from '../world/answer-record.ts'
import { LogHistogram, type Statistics } from './log-histogram.ts'

/** What became of the requests of one part of the workload, or of all. Times in ms. */
export interface ModeResult {
  readonly requests: number
  readonly answered: number
  /** By reason. */
  readonly refused: Readonly<Record<string, number>>
  /** Neither answered nor refused when the run ended. */
  readonly open: number
  readonly ttftMs: Statistics
  /** Between tokens, each gap counted. Tokens that come together have no time between them. */
  readonly tbtMs: Statistics
  /** The mean time between tokens of each answer. */
  readonly answerTbtMs: Statistics
  /** From the request to the last token. */
  readonly latencyMs: Statistics
  /** Of each answer: how long its reader waited for tokens after the first. */
  readonly stalledMs: Statistics
  /** Answers that stalled, as a share. */
  readonly stalledShare: number
  /** Seconds that their readers need for the answers, stalls excluded. */
  readonly readingS: number
  /** Those of answers that have ended. */
  readonly tokens: number
  readonly tokensPerS: number
  readonly answersPerS: number
  /** Weighted by TokenFlow Eq. 1. */
  readonly effectiveTokensPerS: number
  /** TokenFlow Eq. 2. */
  readonly qos: number
  /** Mean of all that are over, 0..1; a refused one has 0. */
  readonly qualityOfExperience: number
  /** Answers of whose prompt the server has computed any. */
  readonly atServer: number
  /** DiSCo: what the readers of answers that changed sides had in hand then. */
  readonly bufferedTokens: Statistics
  /** Sums over all answers. */
  readonly work: AnswerWork
}

const unreadAnswer = { tokens: 0, weightedTokens: 0, ttftMs: undefined, stalls: 0, stalledMs: 0 }

const sumNames = [
  'requests',
  'answered',
  'ended',
  'tokens',
  'weightedTokens',
  'qos',
  'experience',
  'stalls',
  'readingS',
  'atServer',
] as const
const histogramNames = ['ttftMs', 'tbtMs', 'answerTbtMs', 'latencyMs', 'stalledMs', 'bufferedTokens'] as const

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

  /** Counts what another one has counted. */
  merge(other: ModeCounter): void {
    addTo(this.#refused, other.#refused)
    addTo(this.#work, other.#work)
    addTo(this.#sums, other.#sums)
    for (const name of histogramNames) this.#histograms[name].merge(other.#histograms[name])
  }

  /** @param durationS of the run */
  result(durationS: number): ModeResult {
    const perS = (count: number) => (durationS === 0 ? Number.NaN : count / durationS)
    const { ended, weightedTokens, qos, experience, stalls, ...sums } = this.#sums
    const { requests, answered, tokens } = sums
    const statistics = recordOf(histogramNames, (name) => this.#histograms[name].statistics)
    const unread = requests - statistics.ttftMs.count
    return {
      ...sums,
      ...statistics,
      refused: { ...this.#refused },
      open: requests - ended,
      stalledShare: answered === 0 ? Number.NaN : stalls / answered,
      tokensPerS: perS(tokens),
      answersPerS: perS(answered),
      effectiveTokensPerS: perS(weightedTokens),
      qos: perS(qos) + unread * qualityOfService([unreadAnswer], durationS, qosPenalties),
      qualityOfExperience: ended === 0 ? Number.NaN : experience / ended,
      work: { ...this.#work },
    }
  }
}

const recordOf = <Name extends string, Value>(names: readonly Name[], valueFor: (name: Name) => Value) =>
  Object.fromEntries(names.map((name) => [name, valueFor(name)])) as Record<Name, Value>

/** Adds numbers by their names. */
function addTo(sums: Record<string, number>, more: Readonly<Record<string, number>>): void {
  for (const [name, value] of Object.entries(more)) sums[name] = (sums[name] ?? 0) + value
}
