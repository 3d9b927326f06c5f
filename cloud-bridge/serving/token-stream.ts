import { endOf } from '../../core/answer/endpoint.ts'
import type { Sequence } from '../../core/engine/contract.ts'
import { type Choice, choose } from '../../core/engine/logprobs.ts'
import type { Sampling } from '../../core/engine/sampler.ts'
import { DrainRate } from '../../core/policy/serving/drain-rate.ts'
import type { Resumption } from '../../core/policy/serving/policy.ts'
import { Reader, readingTokensPerS } from '../../core/policy/serving/reader.ts'
import type { AnswerEnd } from '../../core/text/answer-stream.ts'
import { canceled, type EngineHost, EngineStream, type StreamRows, type WaitingRows } from './engine-stream.ts'
import type { ItemResult, TokenItem } from './served-model.ts'
import { sharedIds, type TokenPrefix } from './token-prefixes.ts'

/** An answer of the whole model, in token ids. */
export interface TokenRequest {
  /** The prompt, and the answer so far: at least one. */
  readonly ids: readonly number[]
  /** The answer so far, with which `ids` ends. */
  readonly answered: readonly number[]
  /** Tokens that follow, at least 1 and at most; they fit into the context. */
  readonly maxTokens: number
  /** Ids that end the answer. */
  readonly eos: readonly number[]
  readonly sampling: Sampling
  /** Likeliest tokens that are reported with their log probabilities; absent: none, and not the token's own either. */
  readonly logprobs?: number | undefined
  /** Tokens per second that the reader takes; absent: a person who reads. */
  readonly tokensPerS?: number | undefined
}

/** Tokens that have become certain. */
export interface NextTokens {
  readonly choices: readonly Choice[]
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

export interface TokenHost extends EngineHost {
  /** KV of the first of these ids that the owner's other answers hold or have left; it takes the place of `empty`. */
  beginWith(owner: string, ids: readonly number[], empty: Sequence): Sequence
  /** Length of that KV. */
  prefixLength(owner: string, ids: readonly number[]): number
  /** A step of the stream begins. */
  begin(stream: EngineStream): void
  /** Caches the KV of these ids for later streams of this owner, or releases it. */
  cacheTokens(owner: string, sequence: Sequence, ids: readonly number[]): void
}

/** A wait for fewer shared rows would cost more than to compute them. */
const minSharedRows = 16

/**
 * A stream of token ids, as serving sees it. Waiting are the ids that its sequence does not hold yet: the prompt, the last
 * token, or everything once its KV has been dropped.
 */
export class ModelTokenStream extends EngineStream implements TokenStream {
  readonly canRecompute = true
  protected readonly source = 'answer'
  protected readonly reader: Reader
  readonly #drain = new DrainRate()
  readonly #host: TokenHost
  readonly #request: TokenRequest
  readonly #ids: number[]
  /** With which `#ids` ends. */
  readonly #answer: number[]
  readonly #maxAnswer: number
  readonly continuesAtOnce = true
  #arrivedMs: number
  #stepsSkipped = 0
  /** Chosen in the running step. */
  #chosen: Choice | undefined
  /** Chosen, and not taken by `next` yet. */
  #choices: Choice[] = []
  #end: AnswerEnd | undefined
  #failure: { readonly error: unknown } | undefined
  #wake = () => {}
  #leavesPrefix = true
  /** Whether it has no rows that it has computed itself. */
  #isFresh = true

  constructor(id: number, owner: string, sequence: Sequence, request: TokenRequest, host: TokenHost) {
    super(id, owner, sequence, 'evicted', host)
    const nowMs = host.clock.nowMs()
    const { ids, answered, tokensPerS, maxTokens } = request
    this.#host = host
    this.#request = request
    this.#ids = [...ids]
    this.#answer = [...answered]
    this.#maxAnswer = answered.length + maxTokens
    this.#arrivedMs = nowMs
    this.reader = new Reader(tokensPerS ?? readingTokensPerS, maxTokens, nowMs)
  }

  get pending(): WaitingRows | undefined {
    const waiting = this.#ids.length - this.sequence.length
    if (this.#hasEnded || waiting === 0) return undefined
    return { waiting, phase: waiting === 1 ? 'decode' : 'prefill', arrivedMs: this.#arrivedMs, stepsSkipped: this.#stepsSkipped }
  }

  /** The last token of an answer becomes no row. */
  protected get followingRows(): number {
    return Math.max(0, this.#maxAnswer - this.#answer.length - 1)
  }

  /** KV that another answer of the owner may copy now; undefined while a step uses it. */
  get prefix(): TokenPrefix | undefined {
    if (this.isInStep || this.kv.residency !== 'resident' || this.closing) return undefined
    return { sequence: this.sequence, ids: this.#ids }
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
        return { choices, end: this.#end }
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  #observeTake(tokens: number, backlog: number): void {
    const nowMs = this.#host.clock.nowMs()
    this.#drain.take(tokens, backlog, nowMs)
    const { tokensPerS } = this.#drain
    if (tokensPerS !== undefined && this.#request.tokensPerS === undefined) this.reader.setRate(tokensPerS, nowMs)
  }

  /** When it closes, its KV is released rather than cached. */
  leaveNothing(): void {
    this.#leavesPrefix = false
  }

  close(): Promise<void> {
    this.closing ??= this.#release(this.#failure === undefined)
    return this.closing
  }

  async #release(isIntact: boolean): Promise<void> {
    // `closing` is set before what waits is canceled.
    await Promise.resolve()
    await this.stop()
    const holdsRows = await this.kv.close()
    const { sequence } = this
    if (isIntact && holdsRows && this.#leavesPrefix)
      this.#host.cacheTokens(this.owner, sequence, this.#ids.slice(0, sequence.length))
    else this.#host.kv.release(sequence)
  }

  override resume(by: Resumption): void {
    if (by === 'load' && this.sequence.length > 0) super.resume(by)
    else if (!this.closing) {
      this.#isFresh = true
      this.kv.restart(this.#beginWith)
    }
  }

  readonly #beginWith = (empty: Sequence) => this.#host.beginWith(this.owner, this.#ids, empty)

  /** Several answers to one prompt arrive at once: one computes it, the others begin with its rows. */
  override awaitsRowsOf(others: readonly StreamRows[]): boolean {
    if (!this.#isFresh) return false
    const needed = this.#ids.slice(0, -1)
    return others.some(({ stream, rows }) => {
      if (!(stream instanceof ModelTokenStream) || stream.owner !== this.owner) return false
      const held = stream.sequence.length
      const shared = sharedIds(stream.#ids, needed)
      return Math.min(held + rows, shared) - Math.max(this.sequence.length, Math.min(held, shared)) >= minSharedRows
    })
  }

  override prepare(): void {
    if (this.#isFresh && this.#host.prefixLength(this.owner, this.#ids) > this.sequence.length) this.kv.replace(this.#beginWith)
  }

  makesWayFor(): boolean {
    return true
  }

  protected piece(count: number): TokenItem {
    this.#host.begin(this)
    this.#isFresh = false
    const from = this.sequence.length
    const isLast = from + count === this.#ids.length
    const read = (logits: Float32Array) => {
      this.#chosen = choose(logits, this.#request, this.#ids.length, this.#answer)
    }
    return { sequence: this.sequence, ids: this.#ids.slice(from, from + count), read: isLast ? read : undefined }
  }

  addResult(_: ItemResult): void {
    const choice = this.#chosen
    this.#chosen = undefined
    if (this.closing) this.fail(canceled())
    if (this.closing || !choice) return
    const { token } = choice
    const nowMs = this.#host.clock.nowMs()
    this.#ids.push(token)
    this.#answer.push(token)
    this.#choices.push(choice)
    this.reader.deliver(1, nowMs)
    this.#arrivedMs = nowMs
    this.#stepsSkipped = 0
    this.#end = endOf([token], this.#maxAnswer - this.#answer.length, this.#request.eos)
    if (this.#end) void this.close()
    else this.#host.enqueue(this)
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

  skipStep(): void {
    this.#stepsSkipped += 1
  }

  get #hasEnded(): boolean {
    return this.#end !== undefined || this.#failure !== undefined
  }
}
