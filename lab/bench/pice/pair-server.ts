import { z } from 'zod'
import { apiBaseUrl } from '../../../core/answer/upstream/base-url.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'

const Models = z.object({ data: z.array(z.object({ id: z.string().min(1) })).min(1) })
const Scored = z.object({
  choices: z
    .array(z.object({ logprobs: z.object({ text_offset: z.array(z.int()), token_logprobs: z.array(z.number().nullable()) }) }))
    .min(1),
})

/** A server with OpenAI's API, and the first of its models. */
export interface PairServer {
  readonly url: string
  readonly model: string
}

/** @throws BrimError UPSTREAM_FAILED where it names no model */
export async function findServer(given: string, signal: AbortSignal): Promise<PairServer> {
  const url = apiBaseUrl(given)
  const models = await fetch(`${url}/models`, { signal }).then(
    async (response) => Models.safeParse(await response.json().catch(() => undefined)),
    (cause) => ({ data: undefined, error: cause as unknown }),
  )
  const model = models.data?.data[0]?.id
  if (model !== undefined) return { url, model }
  throw new BrimError('UPSTREAM_FAILED', `${url}/models names no model`, {
    cause: models.error,
    hint: "name the base URL of a server with OpenAI's API, such as http://127.0.0.1:8080",
  })
}

/**
 * Bits per token of an answer after its question, as its server finds them (`echo` with `logprobs`: vLLM, SGLang, llama-cpp-python).
 * Null: it does not tell.
 */
export async function bitsPerToken(
  { url, model }: PairServer,
  question: string,
  answer: string,
  signal: AbortSignal,
): Promise<number | null> {
  const begin = `${question}\n\n`
  const body = JSON.stringify({ model, prompt: begin + answer, echo: true, logprobs: 1, max_tokens: 1, temperature: 0 })
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${url}/completions`, { method: 'POST', headers, body, signal })
  const scored = Scored.safeParse(await response.json().catch(() => undefined))
  if (!scored.success) return null
  const { text_offset: offsets, token_logprobs: logprobs } = scored.data.choices[0]!.logprobs
  const end = begin.length + answer.length
  const own = logprobs.filter((logprob, at) => logprob !== null && offsets[at]! >= begin.length && offsets[at]! < end)
  return own.length === 0 ? null : -own.reduce((sum: number, logprob) => sum + logprob!, 0) / own.length / Math.LN2
}
