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

/** Counts answers of one part of the workload, or of all. Mutable. */
export class ModeCounter {
  readonly #refused: Record<string, number> = {}
  readonly #ttft = new LogHistogram()
  readonly #gaps = new LogHistogram()
  readonly #answerTbt = new LogHistogram()
  readonly #latency = new LogHistogram()
  readonly #stalled = new LogHistogram()
  readonly #work = noWork()
  readonly #buffered = new LogHistogram()
  #requests = 0
  #answered = 0
  #ended = 0
  #tokens = 0
  #weightedTokens = 0
  #qosSum = 0
  #experienceSum = 0
  #stalls = 0
  #readingS = 0
  #atServer = 0

  asked(): void {
    this.#requests += 1
  }

  /** A first token has come, whatever becomes of the answer. */
  first(ttftMs: number): void {
    this.#ttft.add(ttftMs)
  }

  gap(ms: number, tokens: number): void {
    this.#gaps.add(ms)
    this.#gaps.add(0, tokens - 1)
  }

  ended(record: AnswerRecord): void {
    this.#ended += 1
    if (record.serverPromptTokens > 0) this.#atServer += 1
    for (const field of Object.keys(this.#work) as (keyof AnswerWork)[]) this.#work[field] += record[field]
    if (record.refusal !== undefined) {
      this.#refused[record.refusal] = (this.#refused[record.refusal] ?? 0) + 1
      return
    }
    this.#answered += 1
    this.#experienceSum += record.qualityOfExperience
    this.#qosSum += qualityOfService([{ ...record, stalls: 0 }], 1, qosPenalties)
    this.#tokens += record.tokens
    this.#weightedTokens += record.weightedTokens
    this.#latency.add(record.endedMs - record.atMs)
    this.#stalled.add(record.stalledMs)
    if (record.stalledMs > 0) this.#stalls += 1
    this.#readingS += record.tokens / record.tokensPerS
    if (record.migrations > 0) this.#buffered.add(record.bufferedTokens / record.migrations)
    if (record.tokens > 1) this.#answerTbt.add(record.tbtMs)
  }

  /** Counts what another one has counted. */
  merge(other: ModeCounter): void {
    for (const [reason, count] of Object.entries(other.#refused)) this.#refused[reason] = (this.#refused[reason] ?? 0) + count
    for (const field of Object.keys(this.#work) as (keyof AnswerWork)[]) this.#work[field] += other.#work[field]
    this.#ttft.merge(other.#ttft)
    this.#gaps.merge(other.#gaps)
    this.#answerTbt.merge(other.#answerTbt)
    this.#latency.merge(other.#latency)
    this.#stalled.merge(other.#stalled)
    this.#buffered.merge(other.#buffered)
    this.#requests += other.#requests
    this.#answered += other.#answered
    this.#ended += other.#ended
    this.#tokens += other.#tokens
    this.#weightedTokens += other.#weightedTokens
    this.#qosSum += other.#qosSum
    this.#experienceSum += other.#experienceSum
    this.#stalls += other.#stalls
    this.#readingS += other.#readingS
    this.#atServer += other.#atServer
  }

  /** @param durationS of the run */
  result(durationS: number): ModeResult {
    const perS = (count: number) => (durationS === 0 ? Number.NaN : count / durationS)
    const unread = this.#requests - this.#ttft.statistics.count
    return {
      requests: this.#requests,
      answered: this.#answered,
      refused: { ...this.#refused },
      open: this.#requests - this.#ended,
      ttftMs: this.#ttft.statistics,
      tbtMs: this.#gaps.statistics,
      answerTbtMs: this.#answerTbt.statistics,
      latencyMs: this.#latency.statistics,
      stalledMs: this.#stalled.statistics,
      stalledShare: this.#answered === 0 ? Number.NaN : this.#stalls / this.#answered,
      readingS: this.#readingS,
      tokens: this.#tokens,
      tokensPerS: perS(this.#tokens),
      answersPerS: perS(this.#answered),
      effectiveTokensPerS: perS(this.#weightedTokens),
      qos: perS(this.#qosSum) + unread * qualityOfService([unreadAnswer], durationS, qosPenalties),
      qualityOfExperience: this.#ended === 0 ? Number.NaN : this.#experienceSum / this.#ended,
      atServer: this.#atServer,
      bufferedTokens: this.#buffered.statistics,
      work: { ...this.#work },
    }
  }
}
