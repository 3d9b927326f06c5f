import type { Random } from '../../../core/kit/base/random.ts'
import type { TextTokenizer } from '../../../core/model/text/tokenizer.ts'
import { type AnswerBody, streamAnswerFrom } from '../../../core/wire/openai/client.ts'
import { shuffled } from '../shuffled.ts'
import type { TurnRun } from './report.ts'

/** As an agent loop's: the question with its documents, then the result of a tool. */
const firstTokens = 1_000
const result = 'The tool says: 503 metres. What does that mean?'
const maxTokens = 16

interface TurnsOptions {
  readonly server: 'agent' | 'bridge'
  readonly url: string
  readonly tokenizer: TextTokenizer
  /** Token ids of texts, of which questions of 1,000 tokens are made. */
  readonly texts: readonly (readonly number[])[]
  readonly random: Random
  readonly signal: AbortSignal
}

/** Two turns of a conversation, and the second again without the first: what a prefix that is known saves of it. */
export async function askTurns({ server, url, tokenizer, texts, random, signal }: TurnsOptions): Promise<TurnRun> {
  const ids = shuffled(texts, random).flat().slice(0, firstTokens)
  const question = { role: 'user' as const, content: tokenizer.decode(ids, { skipSpecialTokens: true }) }
  const ask = async (messages: Extract<AnswerBody, { messages: unknown }>['messages']) => {
    const startedMs = performance.now()
    let firstMs: number | undefined
    const onText = () => {
      firstMs ??= performance.now() - startedMs
    }
    const body = { model: 'brim', messages, temperature: 0, max_tokens: maxTokens, user: 'turns' }
    const { text } = await streamAnswerFrom({ server, url }, body, signal, { onText })
    return { text, ttftMs: firstMs ?? performance.now() - startedMs }
  }
  const first = await ask([question])
  const next = { role: 'user' as const, content: result }
  const second = await ask([question, { role: 'assistant', content: first.text }, next])
  const alone = await ask([next])
  return { kind: 'turns', server, firstMs: first.ttftMs, secondMs: second.ttftMs, aloneMs: alone.ttftMs }
}
