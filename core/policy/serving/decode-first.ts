import { admitInOrder } from './admit-in-order.ts'
import { FairPacker } from './pack-step.ts'
import type { ServingPolicy, StreamState } from './policy.ts'

export interface DecodeFirstLimits {
  /** Rows of prompts in one step while a stream decodes. They bound how long a prompt delays another stream's next token. */
  readonly promptRows: number
  /** A piece of a prompt has at least this many rows, unless fewer wait: fewer are not worth a place in a step. */
  readonly minPromptRows: number
  /** Rows that were skipped by this many steps go before all others. */
  readonly maxStepsSkipped: number
  /** A stream counts as decoding for this long after its last decode step: its next rows are on their way. */
  readonly decodingMs: number
}

/**
 * Decode and verify first, then prompts, each in the order of arrival, until rows or places run out. Prompts are cut into
 * pieces, so that no stream's next token waits for another's whole prompt (Sarathi-Serve, arXiv:2403.02310), and rows that
 * were skipped too often go first, so that prompts proceed however many streams decode. An evicted stream is resumed as soon
 * as it has waiting rows and its KV fits. Streams are preempted, the latest first, only where the others could not proceed.
 */
export function decodeFirst(limits: DecodeFirstLimits): ServingPolicy {
  const packer = new FairPacker()
  return {
    plan(state, nowMs) {
      const { evict, preempt, resume, ready } = admitInOrder(state, state.waiting)
      const decoding = state.lastDecodeMs !== undefined && nowMs - state.lastDecodeMs < limits.decodingMs
      const promptsAreLimited = decoding || ready.some(({ phase }) => phase !== 'prefill')
      // Stable: streams of the same rank stay in the order of arrival.
      const ranked = ready.toSorted((a, b) => rankOf(a, limits) - rankOf(b, limits))
      const run = packer.pack(ranked, state.step, {
        promptRows: promptsAreLimited ? limits.promptRows : state.step.rows,
        minPromptRows: limits.minPromptRows,
      })
      return { evict, preempt, resume, run, lookAgainAtMs: undefined }
    },
  }
}

function rankOf({ stepsSkipped, phase }: StreamState, limits: DecodeFirstLimits): number {
  if (stepsSkipped >= limits.maxStepsSkipped) return 0
  return phase === 'prefill' ? 2 : 1
}
