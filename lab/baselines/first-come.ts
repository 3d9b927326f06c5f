import { admitInOrder } from '../../core/policy/serving/admit-in-order.ts'
import { FairPacker } from '../../core/policy/serving/pack-step.ts'
import type { ServingPolicy } from '../../core/policy/serving/policy.ts'
import { ReservedShare } from './reserved-share.ts'

export interface FirstComeOptions {
  /**
   * Rows of prompts in one step, which decoding streams then share (chunked prefill); undefined: prompts are computed whole, in
   * steps of their own.
   */
  readonly chunkRows?: number | undefined
  /** `whole`: nothing is preempted; `share`: as `ReservedShare`. */
  readonly reserves?: 'whole' | 'share'
}

/**
 * The baselines of TokenFlow §7.1.4, as SGLang serves: requests in the order of arrival, as many at once as the memory holds
 * (SGLang allocates it in advance, §9), prompts before everything else. Rates and buffers count for nothing.
 */
export function firstCome({ chunkRows, reserves = 'whole' }: FirstComeOptions = {}): ServingPolicy {
  const share = reserves === 'share' ? new ReservedShare() : undefined
  const packer = new FairPacker()
  return {
    plan(state) {
      // Streams are numbered in the order in which they are opened.
      const ordered = state.waiting.toSorted((a, b) => a.id - b.id)
      const { ready, ...admitted } = admitInOrder(state, ordered, share?.value ?? 1)
      const prompts = ready.filter(({ phase }) => phase === 'prefill')
      const others = ready.filter(({ phase }) => phase !== 'prefill')
      const ranked = chunkRows === undefined && prompts.length > 0 ? prompts : [...prompts, ...others]
      if (admitted.preempt.length > 0) share?.preempted(ready)
      else if (ranked.length > prompts.length) share?.decoded()
      const promptRows = chunkRows ?? state.step.rows
      const run = packer.pack(ranked, state.step, { promptRows, minPromptRows: 1 })
      return { ...admitted, run, lookAgainAtMs: undefined }
    },
  }
}
