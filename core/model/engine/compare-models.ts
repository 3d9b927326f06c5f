import { BrimError } from '../../kit/base/errors.ts'
import type { Chain } from './contract.ts'

/** How far the second of two models is from the first. */
export interface Comparison {
  /** Tokens that were predicted: of each text all but the first. */
  readonly tokens: number
  /** exp of the mean negative log probability of the texts' tokens, of each model. */
  readonly perplexities: readonly [number, number]
  /** Share of positions where both have the same likeliest token, 0..1. */
  readonly topAgreement: number
  /** Mean divergence of the second distribution from the first, KL(first ‖ second), in nats for each token. */
  readonly divergence: number
}

interface CompareOptions {
  readonly signal: AbortSignal
  /** @param share 0..1 */
  readonly onProgress: (share: number) => void
}

/** Logits of each model that are in memory at a time (16 MiB), and rows of a step at most. */
const maxLogits = 4 << 20
const maxRows = 256

/**
 * Runs both models over the same texts. A position counts with the ids that both models have: their matrices may be padded to different sizes.
 * @param texts token ids, each text within the context of both; those of one token predict nothing
 * @throws the signal's reason; BrimError RUNTIME_FAILED
 */
export async function compareModels(
  models: readonly [Chain, Chain],
  texts: readonly (readonly number[])[],
  { signal, onProgress }: CompareOptions,
): Promise<Comparison> {
  const [vocabs, chains] = [models.map(({ manifest }) => manifest.dims.vocab), [...models]]
  const rowsAtOnce = Math.max(1, Math.min(maxRows, Math.floor(maxLogits / Math.max(...vocabs))))
  const predicted = (ids: readonly number[]) => Math.max(0, ids.length - 1)
  const total = texts.reduce((sum, ids) => sum + predicted(ids), 0)
  const sums = new Sums(Math.min(...vocabs))
  for (const ids of texts) {
    const sequences = chains.map((chain) => chain.createSequence())
    try {
      for (let from = 0; from < predicted(ids); from += rowsAtOnce) {
        signal.throwIfAborted()
        const rows = Math.min(rowsAtOnce, predicted(ids) - from)
        const step = (at: number) =>
          chains[at]!.step([{ sequence: sequences[at]!, ids: ids.slice(from, from + rows), select: 'all' }])
        const [first, second] = [await step(0), await step(1)]
        const rowOf = (logits: Float32Array, vocab: number, row: number) => logits.subarray(row * vocab, (row + 1) * vocab)
        for (let row = 0; row < rows; row++)
          sums.add(rowOf(first, vocabs[0]!, row), rowOf(second, vocabs[1]!, row), ids[from + row + 1]!)
        onProgress(sums.tokens / total)
        // Steps of a small model may never wait for anything else.
        await new Promise(setImmediate)
      }
    } finally {
      for (const sequence of sequences) sequence.release()
    }
  }
  return sums.mean()
}

/** Natural logarithm of the sum of e^logits, and the likeliest token. */
function normOf(logits: Float32Array, vocab: number): { norm: number; top: number } {
  let top = 0
  for (let id = 1; id < vocab; id++) if (logits[id]! > logits[top]!) top = id
  const largest = logits[top]!
  let sum = 0
  for (let id = 0; id < vocab; id++) sum += Math.exp(logits[id]! - largest)
  return { norm: largest + Math.log(sum), top }
}

class Sums {
  readonly #vocab: number
  #tokens = 0
  #first = 0
  #second = 0
  #agreed = 0
  #divergence = 0

  constructor(vocab: number) {
    this.#vocab = vocab
  }

  get tokens(): number {
    return this.#tokens
  }

  /** @param token the one that follows in the text */
  add(first: Float32Array, second: Float32Array, token: number): void {
    const [own, other] = [normOf(first, this.#vocab), normOf(second, this.#vocab)]
    if (!Number.isFinite(own.norm) || !Number.isFinite(other.norm))
      throw new BrimError('RUNTIME_FAILED', 'a model returned NaN or infinity as logits', {
        hint: 'run "brim model verify" on both bundles',
      })
    let divergence = 0
    for (let id = 0; id < this.#vocab; id++) {
      const log = first[id]! - own.norm
      divergence += Math.exp(log) * (log - (second[id]! - other.norm))
    }
    this.#tokens++
    this.#first += own.norm - first[token]!
    this.#second += other.norm - second[token]!
    this.#agreed += own.top === other.top ? 1 : 0
    this.#divergence += divergence
  }

  mean(): Comparison {
    const tokens = this.#tokens
    return {
      tokens,
      perplexities: [Math.exp(this.#first / tokens), Math.exp(this.#second / tokens)],
      topAgreement: this.#agreed / tokens,
      // Rounding may leave less than 0 of equal distributions.
      divergence: Math.max(0, this.#divergence / tokens),
    }
  }
}
