import { endOf } from '../../core/answer/endpoint/endpoint.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Sequence } from '../../core/model/engine/contract.ts'
import { choose, log2Probability, type TokenChoice } from '../../core/model/engine/logprobs.ts'
import type { Sampling } from '../../core/model/engine/sampler.ts'
import { maskAfter, type TokenConstraint, type TokenMask } from '../../core/model/grammar/grammar.ts'
import type { AnswerEnd } from '../../core/model/text/answer-stream.ts'
import { clientOf } from '../../core/policy/fairness/client.ts'
import { DrainRate } from '../../core/policy/serving/drain-rate.ts'
import { loadsRather } from '../../core/policy/serving/prefix-reuse.ts'
import { readingTokensPerS } from '../../core/policy/serving/reader.ts'
import type { StreamView } from '../../core/policy/serving/stream-view.ts'
import { type EngineHost, EngineStream, streamClosed } from './engine-stream.ts'
import { PageKeys } from './page-keys.ts'
import type { ItemResult, TokenItem } from './served-model.ts'
import { type FoundPrefix, sharedIds, type TokenPrefix } from './token-prefixes.ts'

/** An answer of the whole model, in token ids. */
export interface TokenStreamRequest {
  /** The prompt, and the answer so far: at least one. */
  readonly ids: readonly number[]
  /** The answer so far, with which `ids` ends. */
  readonly answered: readonly number[]
  /** Tokens that follow, at least 1 and at most; they fit into the context. */
  readonly maxTokens: number
  /** Ids that end the answer. */
  readonly eos: readonly number[]
  readonly sampling: Sampling
  /** What the answer is kept to; absent: nothing. */
  readonly constraint?: TokenConstraint | undefined
  /** Likeliest tokens that are reported with their log probabilities; absent: none, and not the token's own either. */
  readonly logprobs?: number | undefined
  /** Whether the log probabilities of `answered` are wanted, too. */
  readonly scoresAnswered?: boolean | undefined
  /** Tokens per second that the reader takes; absent: a person who reads. */
  readonly tokensPerS?: number | undefined
}

/** Tokens that have become certain. */
export interface NextTokens {
  readonly choices: readonly TokenChoice[]
  /** log2 p of each token of the request's `answered`, where it asks for them; with the first tokens. */
  readonly answeredLog2?: readonly number[] | undefined
  /** Set with the last ones. */
  readonly end: AnswerEnd | undefined
}

/** One answer that the engine writes, as fast as the policy lets it, however fast its tokens are taken. */
export interface TokenStream {
  /**
   * The tokens since the last call, at least one. With the last of them the stream has closed.
   * @throws what choosing or a step throws; BrimError CANCELED where the stream or the bridge closes first
   */
  next(): Promise<NextTokens>
  /** Stops after the running step at the latest, and releases the KV or caches it. */
  close(): Promise<void>
}

/** What operators see of an answer. */
export interface AnswerView extends StreamView {
  readonly client: string
  readonly generatedTokens: number
}

export interface TokenHost extends EngineHost {
  /** See PageOwner.model. */
  readonly kvModel: string
  /** KV of the first of these ids that the owner's other answers hold or have left. */
  longestPrefix(owner: string, ids: readonly number[]): FoundPrefix | undefined
  /** Releases the KV of a closed stream, or caches it under these ids for later streams of its owner. */
  leaveTokens(stream: ModelTokenStream, ids: readonly number[]): void
}

const isCanceled = (error: unknown) => error instanceof BrimError && error.code === 'CANCELED'

/** A wait for fewer shared rows would cost more than to compute them. */
const minSharedRows = 16

/**
 * A stream of token ids, as serving sees it. Waiting are the ids that its sequence does not hold yet: the prompt, the last
 * token, or everything once its KV has been dropped.
 */
export class ModelTokenStream extends EngineStream implements TokenStream {
  readonly continuesAtOnce = true
  readonly #drain = new DrainRate()
  readonly #host: TokenHost
  readonly #request: TokenStreamRequest
  readonly #ids: number[]
  /** With which `#ids` ends. */
  readonly #answer: number[]
  readonly #maxAnswer: number
  /** Ids from here on are chosen, or scored. */
  readonly #scoredFrom: number
  /** log2 p of the ids from `#scoredFrom` on; undefined: they have been handed out, or are not wanted. */
  #scores: number[] | undefined
  /** Chosen in the running step. */
  #chosen: TokenChoice | undefined
  /** Chosen, and not taken by `next` yet. */
  #choices: TokenChoice[] = []
  #end: AnswerEnd | undefined
  #refusal: { readonly error: unknown } | undefined
  #failure: { readonly error: unknown } | undefined
  #wake = () => {}
  #leavesPrefix: boolean

  constructor(id: number, owner: string, sequence: Sequence, request: TokenStreamRequest, host: TokenHost) {
    const { answered, maxTokens, scoresAnswered } = request
    const ids = [...request.ids]
    // Rows alone do not restore the states of recurrent layers.
    const leavesPages = host.slow?.isLasting && sequence.fixedBytes === 0
    super(id, owner, sequence, host, leavesPages ? new PageKeys({ model: host.kvModel, owner }, ids) : undefined)
    this.#host = host
    this.#request = request
    this.#ids = ids
    this.#answer = [...answered]
    this.#maxAnswer = answered.length + maxTokens
    this.#scoredFrom = ids.length - (scoresAnswered ? answered.length : 0)
    // What is scored is no text that another turn goes on with.
    this.#leavesPrefix = !scoresAnswered
    if (scoresAnswered) this.#scores = []
  }

  /** Waits for its first step. @throws BrimError QUEUE_FULL */
  open(): void {
    const { id: stream, owner } = this
    const { tokensPerS = readingTokensPerS } = this.#request
    const [rows, following] = [this.#ids.length, this.#followingRows]
    this.#host.feed({ kind: 'answer opened', stream, owner, client: clientOf(owner), tokensPerS, rows, following })
    if (this.#refusal) throw this.#refusal.error
  }

  /** There is no place for it. */
  refuse(error: unknown): void {
    this.#refusal = { error }
  }

  /** The last token of an answer becomes no row. */
  get #followingRows(): number {
    return Math.max(0, this.#maxAnswer - this.#answer.length - 1)
  }

  /** KV that another answer of the owner may copy now; undefined while a step uses it. */
  get prefix(): TokenPrefix | undefined {
    return this.closing || !this.isResident ? undefined : { sequence: this.sequence, ids: this.#ids }
  }

  async next(): Promise<NextTokens> {
    const backlog = this.#choices.length
    for (;;) {
      // The memory is free before the reader gets the last tokens.
      if (this.#hasEnded) await this.closing
      if (this.#failure) throw this.#failure.error
      if (this.#choices.length > 0) {
        const choices = this.#choices
        this.#choices = []
        this.#observeTake(choices.length, backlog)
        const answeredLog2 = this.#scores?.slice(0, this.#request.answered.length)
        this.#scores = undefined
        return { choices, end: this.#end, answeredLog2 }
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  #observeTake(tokens: number, backlog: number): void {
    this.#drain.take(tokens, backlog, this.#host.clock.nowMs())
    const { tokensPerS } = this.#drain
    if (tokensPerS !== undefined && this.#request.tokensPerS === undefined && !this.closing)
      this.#host.feed({ kind: 'rate', stream: this.id, tokensPerS })
  }

  override view(): AnswerView | undefined {
    const view = super.view()
    const generatedTokens = this.#answer.length - this.#request.answered.length
    return view && { client: clientOf(this.owner), ...view, generatedTokens }
  }

  /** When it closes, its KV is released rather than cached. */
  leaveNothing(): void {
    this.#leavesPrefix = false
  }

  close(): Promise<void> {
    if (this.closing) return this.closing
    this.#leavesPrefix &&= !this.#failure || isCanceled(this.#failure.error)
    return this.beginClosing()
  }

  override get leavesPages(): boolean {
    return this.#leavesPrefix && this.kv.hasKeys
  }

  protected leaveKv(holdsRows: boolean): void {
    this.#host.leaveTokens(this, holdsRows && this.#leavesPrefix ? this.#ids.slice(0, this.sequence.length) : [])
  }

  /** Ids whose rows need not be its own: the row of the id before yields the logits of one that is chosen or scored. */
  get #computedBefore(): number[] {
    return this.#ids.slice(0, (this.#scores ? this.#scoredFrom : this.#ids.length) - 1)
  }

  /** Looks for rows to begin with, in place of its own. */
  restart(): void {
    this.sequence.truncate(0)
    const before = this.#computedBefore
    const { prefix, length: rows = 0 } = this.#host.longestPrefix(this.owner, before) ?? {}
    // Of a stream in the memory no rows are loaded.
    const saved = this.isResident ? 0 : this.kv.takePages(before.length)
    if (loadsRather(saved, rows) && this.sequence.claim(saved, this.#ids)) {
      this.beginWith(undefined, { rows: 0, saved })
      return
    }
    const { handle, sequence } = prefix ?? {}
    const cached = handle === undefined || !sequence ? undefined : { handle, rows: sequence.length }
    this.beginWith(sequence, { rows, cached, saved: Math.min(saved, rows) || undefined })
  }

  /** The cached rows that were found are the stream's own from now on. @returns the sequence that it had */
  takeOver(sequence: Sequence, rows: number): Sequence {
    const before = this.sequence
    sequence.truncate(rows)
    this.kv.sequence = sequence
    return before
  }

  /** Whether there are more rows to begin with than it has. */
  get isBehind(): boolean {
    return (this.#host.longestPrefix(this.owner, this.#computedBefore)?.length ?? 0) > this.sequence.length
  }

  /**
   * Several answers to one prompt arrive at once: one computes it, the others begin with its rows.
   * @param rows that the other is about to compute
   */
  awaitsRowsOf(other: ModelTokenStream, rows: number): boolean {
    if (other.owner !== this.owner) return false
    const held = other.sequence.length
    const shared = sharedIds(other.#ids, this.#computedBefore)
    return Math.min(held + rows, shared) - Math.max(this.sequence.length, Math.min(held, shared)) >= minSharedRows
  }

  protected piece(count: number): TokenItem {
    const from = this.sequence.length
    const isLast = from + count === this.#ids.length
    const choosing = isLast ? this.#reader() : undefined
    const item = { sequence: this.sequence, ids: this.#ids.slice(from, from + count) }
    const readRows = Math.min(count, from + count + 1 - this.#scoredFrom)
    const scores = this.#scores
    if (!scores || readRows <= 0) return { ...item, read: choosing }
    const read: TokenItem['read'] = (logits, at) => {
      const next = from + at + 1
      if (next === this.#ids.length) return choosing?.(logits, at)
      scores[next - this.#scoredFrom] = log2Probability(logits, this.#ids[next]!)
    }
    return { ...item, readRows, read }
  }

  /** The mask of the next token is found while the step computes. */
  #reader(): TokenItem['read'] {
    const { constraint } = this.#request
    const choosing = (logits: Float32Array, mask?: TokenMask) => {
      this.#chosen = choose(logits, this.#request, this.#ids.length, this.#answer, mask)
    }
    if (!constraint) return (logits) => choosing(logits)
    const mask = maskAfter(constraint, this.#answer)
    // Where the step fails, it is not read.
    mask.catch(() => {})
    return async (logits) => {
      const row = logits.slice()
      choosing(row, await mask)
    }
  }

  addResult(_: ItemResult): void {
    const choice = this.#chosen
    this.#chosen = undefined
    if (this.closing) this.fail(streamClosed())
    if (this.closing || !choice) return
    const { token } = choice
    this.#ids.push(token)
    this.#answer.push(token)
    this.#choices.push(choice)
    this.#end = endOf([token], this.#maxAnswer - this.#answer.length, this.#request.eos)
    if (this.#end) void this.close()
    else this.#host.feed({ kind: 'rows', stream: this.id, rows: 1, phase: 'decode', following: this.#followingRows })
  }

  override deliver(): void {
    this.#wake()
  }

  fail(error: unknown): void {
    if (this.#hasEnded) return
    this.#failure = { error }
    void this.close()
    this.#wake()
  }

  get #hasEnded(): boolean {
    return this.#end !== undefined || this.#failure !== undefined
  }
}
