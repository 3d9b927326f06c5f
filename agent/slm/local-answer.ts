import { type GenerateEvent, type GenerateRequest, generate } from '../../core/engine/generate.ts'
import type { TextTokenizer } from '../../core/text/tokenizer.ts'
import type { LocalModel } from './local-model.ts'

/** One answer of the device's own model; what its prompt takes is measured. @throws BrimError as `generate` does */
export async function* answerLocally(
  { chain, speed }: Pick<LocalModel, 'chain' | 'speed'>,
  tokenizer: TextTokenizer | undefined,
  request: GenerateRequest,
): AsyncGenerator<GenerateEvent> {
  const { clock, promptIds } = request
  const startedMs = clock.nowMs()
  let isFirst = true
  for await (const event of generate(chain, tokenizer, request)) {
    if (isFirst && event.kind === 'token') speed.prefilled(promptIds.length, (clock.nowMs() - startedMs) / 1_000)
    isFirst = false
    yield event
  }
}
