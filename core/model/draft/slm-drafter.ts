import type { Chain, Sequence } from '../engine/contract.ts'
import type { Sampling } from '../engine/sampler.ts'
import type { KnownStream } from './device-stream.ts'
import { draftedToken } from './drafted-token.ts'
import { type DraftedToken, type Drafter, stateless } from './drafter.ts'
import type { RowConstraint } from './row-constraint.ts'

/** Tokens per step in which the small model reads what it has not read yet. */
const chunk = 256

export interface SlmDrafterOptions {
  /** Waits for the small model, which has the LLM's tokens. @throws the signal's reason, or why it cannot be opened */
  readonly borrow: (signal: AbortSignal) => Promise<{ readonly chain: Chain; release(): void }>
  /** Of the LLM. Vocabularies of one tokenizer may be padded to different sizes. */
  readonly vocab: number
  /**
   * Undefined: the small model reads the prompt while the bridge does. A number: it reads nothing before its first draft, and
   * drafts nothing where more tokens than that are unread.
   */
  readonly maxUnread: number | undefined
}

/**
 * Drafts with a small whole model on the device (speculative decoding, Leviathan et al. 2023, arXiv:2211.17192). It reads tokens
 * alone, so its KV follows the tokens: rows of rejected drafts are dropped as soon as other tokens stand in their place.
 * Without the model (before it is lent, if it cannot be, or if its memory is not enough) nothing is drafted: no answer fails
 * because of it.
 */
export function slmDrafter(options: SlmDrafterOptions, sampling: Sampling, constraint?: RowConstraint): Drafter {
  const model = new BorrowedModel(options)
  const { vocab, maxUnread } = options
  return {
    ...stateless,
    // A draft ahead has several branches, which the small model would have to read one after another.
    mayDraftAhead: false,
    async next(known, rows) {
      const masks = await constraint?.after(known, rows)
      const guesses: (readonly DraftedToken[])[] = []
      for (const [at, row] of rows.entries()) {
        const path = known.rows.pathTo(row)
        const ids = [...known.ids.slice(0, path.line), ...path.rows.map((one) => known.ids[one]!)]
        const logits = await model.logitsAfter(ids, maxUnread)
        guesses.push(logits ? [draftedToken('slm', resized(logits, vocab), sampling, ids.length, masks?.[at])] : [])
      }
      return guesses
    },
    async catchUp({ ids, rows }: KnownStream) {
      if (maxUnread === undefined || model.takeDrafted()) await model.read(ids.slice(0, rows.line))
    },
    release: () => model.release(),
  }
}

interface LentModel {
  readonly chain: Chain
  readonly sequence: Sequence
  release(): void
}

/** The small model and its KV of one stream. */
class BorrowedModel {
  #hasDrafted = false
  readonly #borrow: SlmDrafterOptions['borrow']
  readonly #ended = new AbortController()
  #lent: LentModel | undefined
  /** From the first request on; never taken back, so that one answer asks once. */
  #isRequested = false
  /** The tokens of the KV. */
  #read: number[] = []

  constructor({ borrow }: SlmDrafterOptions) {
    this.#borrow = borrow
  }

  /** Whether it has drafted since the last call. */
  takeDrafted(): boolean {
    const drafted = this.#hasDrafted
    this.#hasDrafted = false
    return drafted
  }

  /** @param ids non-empty @returns [vocab] of the small model; undefined: it cannot be asked now */
  async logitsAfter(ids: readonly number[], maxUnread = Number.POSITIVE_INFINITY): Promise<Float32Array | undefined> {
    const kept = Math.min(this.#shared(ids), ids.length - 1)
    if (ids.length - kept > maxUnread) return undefined
    this.#hasDrafted = true
    return this.#step(ids, kept, 'last')
  }

  /** So that the next draft begins sooner. */
  async read(ids: readonly number[]): Promise<void> {
    const kept = this.#shared(ids)
    if (kept < ids.length) await this.#step(ids, kept, 'none')
  }

  release(): void {
    this.#ended.abort()
    this.#giveBack()
  }

  #shared(ids: readonly number[]): number {
    const other = this.#read.findIndex((id, at) => id !== ids[at])
    return other < 0 ? this.#read.length : other
  }

  async #step(ids: readonly number[], kept: number, select: 'last' | 'none'): Promise<Float32Array | undefined> {
    const model = this.#model()
    if (!model) return undefined
    const { chain, sequence } = model
    const { contextLimit, vocab } = chain.manifest.dims
    if (ids.length > contextLimit || ids.some((id) => id >= vocab)) return undefined
    try {
      sequence.truncate(kept)
      this.#read.length = kept
      let logits: Float32Array | undefined
      for (let from = kept; from < ids.length; from += chunk) {
        const next = ids.slice(from, from + chunk)
        logits = await chain.step([{ sequence, ids: next, select: from + chunk < ids.length ? 'none' : select }])
        this.#read.push(...next)
      }
      return logits
    } catch (error) {
      if (!(error instanceof Error && error.name === 'BrimError')) throw error
      this.#giveBack()
      return undefined
    }
  }

  /** Asks for the model at the first call. The answer does not wait for it. */
  #model(): LentModel | undefined {
    if (!this.#isRequested) void this.#request()
    this.#isRequested = true
    return this.#lent
  }

  async #request(): Promise<void> {
    const lent = await this.#borrow(this.#ended.signal).catch(() => undefined)
    if (this.#ended.signal.aborted) lent?.release()
    else this.#lent = lent && { chain: lent.chain, sequence: lent.chain.createSequence(), release: () => lent.release() }
  }

  #giveBack(): void {
    this.#lent?.sequence.release()
    this.#lent?.release()
    this.#lent = undefined
  }
}

function resized(logits: Float32Array, vocab: number): Float32Array {
  if (logits.length >= vocab) return logits.slice(0, vocab)
  const padded = new Float32Array(vocab).fill(Number.NEGATIVE_INFINITY)
  padded.set(logits)
  return padded
}
