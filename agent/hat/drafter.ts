import type { Part, Sequence } from '../../core/engine/contract.ts'
import { chooseToken, type Sampling, topProbability } from '../../core/engine/sampler.ts'
import { requireFinite } from './require-finite.ts'
import type { ShallowRows } from './shallow-rows.ts'
import type { SharedHead } from './shared-head.ts'

export interface Drafted {
  readonly token: number
  /** The draft model's largest probability there, 0..1. */
  readonly topProbability: number
}

/** Guesses what the LLM will choose, from the shallow states of all positions so far. */
export interface Drafter {
  /** The token after the last row; undefined: no guess, the draft ends. */
  next(rows: ShallowRows): Promise<Drafted | undefined>
  /** Takes in rows that it has not seen, at a moment when nobody waits for it. */
  catchUp(rows: ShallowRows): Promise<void>
  /** All but the first `length` positions have been rejected. */
  truncate(length: number): void
  release(): void
}

/** For bundles without an adapter: plain U-shaped decoding. */
export function noDrafter(): Drafter {
  return { next: async () => undefined, catchUp: async () => {}, truncate() {}, release() {} }
}

/** HAT's draft model: output ∘ Λ ∘ input. Its choices use the LLM's own noise, so that they agree as often as can be. */
export function adapterDrafter(adapter: Part, head: SharedHead, sampling: Sampling): Drafter {
  const sequence: Sequence = adapter.createSequence()
  /** The adapter's KV may lag behind: a fully accepted draft leaves its last row unseen. */
  const step = async (rows: ShallowRows, select: 'last' | 'none') => {
    const [states] = await adapter.step([{ sequence, states: rows.slice(sequence.length, rows.length), select }])
    if (!states) throw new Error('a step of one item returned no states')
    return requireFinite(states, 'adapter')
  }
  return {
    async next(rows) {
      const [drafted] = await head.read(await step(rows, 'last'), (logits) => ({
        token: chooseToken(logits, sampling, rows.length),
        topProbability: topProbability(logits),
      }))
      return drafted
    },
    async catchUp(rows) {
      if (rows.length > sequence.length) await step(rows, 'none')
    },
    truncate: (length) => sequence.truncate(Math.min(length, sequence.length)),
    release: () => sequence.release(),
  }
}
