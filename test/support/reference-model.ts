import { join } from 'node:path'
import { tokenizerFolder } from '../../core/model/bundle/manifest.ts'
import { openRuntime } from '../../core/model/engine/capi.ts'
import { openModel } from '../../core/model/engine/open-model.ts'
import { referenceAnswer } from '../../core/model/engine/reference.ts'
import type { Sampling } from '../../core/model/engine/sampler.ts'
import type { ChatMessage } from '../../core/model/text/chat-message.ts'
import { loadChatTemplate } from '../../core/model/text/chat-template.ts'
import { loadTokenizer } from '../../core/model/text/tokenizer.ts'

/** The whole model of a bundle in this process: what each answer should be. */
export async function openReference(bundle: string) {
  const runtime = await openRuntime()
  const model = await openModel(runtime, bundle, { parts: 'chain', threads: 1 })
  const chain = model.chain({ cuts: 'half' })
  const tokenizer = await loadTokenizer(join(bundle, tokenizerFolder))
  const template = await loadChatTemplate(join(bundle, tokenizerFolder))
  const { manifest } = model
  return {
    bundle,
    manifest,
    tokenizer,
    answer: (ids: readonly number[], sampling: Sampling, maxTokens: number): Promise<number[]> =>
      referenceAnswer(chain, ids, sampling, maxTokens, manifest.tokens.eos),
    chatIds: (messages: readonly ChatMessage[]): number[] =>
      tokenizer.encode(template!.render(messages), { addSpecialTokens: false }),
    textOf(ids: readonly number[]): string {
      const detokenizer = tokenizer.detokenizer()
      return ids.map((id) => detokenizer.push(id)).join('')
    },
    async [Symbol.asyncDispose]() {
      await model.release()
      await runtime.close()
    },
  }
}
