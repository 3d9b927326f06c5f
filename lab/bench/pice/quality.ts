import { loadTextModel } from '../../../core/answer/endpoint/text-model.ts'
import type { Chain } from '../../../core/model/engine/contract.ts'
import { logprobsOf } from '../../../core/model/engine/logprobs.ts'
import { openBundle } from '../../../core/model/engine/open-bundle.ts'
import type { FilePrompt } from '../../../core/model/text/prompt-file.ts'
import { confidence } from '../../../core/policy/pice/confidence.ts'
import { rouge1 } from '../../../core/policy/pice/rouge.ts'
import type { Quality } from './runs.ts'

export interface Judged {
  /** Of the answer, in the LLM's vocabulary. */
  readonly tokens: number
  /** Null for an empty answer. */
  readonly quality: Quality | null
}

export type Judge = Awaited<ReturnType<typeof openJudge>>

/** The LLM in this process, which judges answers against its own. */
export async function openJudge(bundle: string, library: string | undefined) {
  const model = await openBundle(bundle, { library, parts: 'chain', threads: 1 })
  const chain = model.chain({ cuts: model.manifest.split === null ? 'full' : 'half' })
  const { tokenizer } = await loadTextModel(bundle, model.manifest)
  const tokensOf = (text: string) => tokenizer.encode(text, { addSpecialTokens: false })
  const known = new Map<string, Judged>()

  async function judge(prompt: FilePrompt, text: string, own: string): Promise<Judged> {
    const ids = tokensOf(text)
    if (ids.length === 0) return { tokens: 0, quality: null }
    const meanLog2Probability = await meanLog2(chain, prompt.ids, ids)
    const candidate = { text, tokens: ids.length, meanLog2Probability }
    const quality = {
      rouge1: rouge1(own, text).f1,
      meanLog2Probability,
      confidence: confidence(candidate, own, Math.max(1, tokensOf(own).length)),
    }
    return { tokens: ids.length, quality }
  }

  return {
    tokensOf,
    /** @param own the LLM's own full answer */
    async judge(prompt: FilePrompt, text: string, own: string): Promise<Judged> {
      const key = JSON.stringify([prompt.id, text, own])
      const judged = known.get(key) ?? (await judge(prompt, text, own))
      known.set(key, judged)
      return judged
    },
    [Symbol.asyncDispose]: () => model.release(),
  }
}

/** (1/N) Σ log2 p of the answer's tokens after the prompt; of an answer beyond the context, of the part that fits. */
async function meanLog2(chain: Chain, promptIds: readonly number[], answerIds: readonly number[]): Promise<number> {
  const { contextLimit, vocab } = chain.manifest.dims
  const answer = answerIds.slice(0, Math.max(1, contextLimit - promptIds.length))
  const ids = [...promptIds, ...answer.slice(0, -1)]
  const sequence = chain.createSequence()
  try {
    const select = answer.map((_, i) => promptIds.length - 1 + i)
    const logits = await chain.step([{ sequence, ids, select }])
    const rowOf = (i: number) => logits.subarray(i * vocab, (i + 1) * vocab)
    const sum = answer.reduce((total, token, i) => total + logprobsOf(rowOf(i), token, 1).logprob, 0)
    return sum / answer.length / Math.LN2
  } finally {
    sequence.release()
  }
}
