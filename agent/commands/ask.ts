import { z } from 'zod'
import { BrimError, errorCodes } from '../../core/base/errors.ts'
import type { Io } from '../../core/base/io.ts'
import { defineCommand } from '../../core/cli/command.ts'
import { readSse } from '../../core/openai/sse-reader.ts'

const Report = z.looseObject({
  ttftMs: z.number(),
  tbtMs: z.object({ p50: z.number().nullable(), p95: z.number().nullable() }),
  acceptLength: z.number().nullable(),
  bytesUp: z.number(),
  bytesDown: z.number(),
  // Absent in the reports of older agents.
  drafting: z.object({ chosen: z.string() }).nullish(),
  reusedTokens: z.number().default(0),
  failovers: z.number().default(0),
  wire: z.string().default('fp16'),
  sources: z.array(z.looseObject({ from: z.number(), source: z.string(), model: z.string() })).default([]),
  fallback: z.object({ code: z.string(), message: z.string() }).nullish(),
})
type Report = z.infer<typeof Report>

const ErrorBody = z.object({ message: z.string(), code: z.string().nullish(), hint: z.string().nullish() })

const Chunk = z.object({
  choices: z
    .array(z.object({ delta: z.object({ content: z.string().nullish() }).nullish(), finish_reason: z.string().nullish() }))
    .default([]),
  usage: z.object({ prompt_tokens: z.number(), completion_tokens: z.number() }).nullish(),
  brim: Report.nullish(),
  error: ErrorBody.nullish(),
})

const options = {
  question: z.string().describe('the question'),
  api: z.string().default('http://127.0.0.1:7071').describe("URL of the agent's API"),
  maxTokens: z.int().min(1).meta({ description: 'max tokens of the answer', fallback: 'what the context holds' }).optional(),
  temperature: z.number().min(0).default(0).describe('randomness of sampling; 0: always the likeliest token'),
  seed: z.int().describe('seed of sampling: the same seed repeats an answer').optional(),
  system: z.string().describe('system message before the question').optional(),
  fallback: z
    .enum(['none', 'slm'])
    .meta({ description: "slm: the device's own small model goes on when no bridge can", fallback: 'none' })
    .optional(),
}
type AskOptions = z.output<z.ZodObject<typeof options>> & { json: boolean }

/** `brim ask "…"` */
export const command = defineCommand({
  examples: [
    ['brim ask "Can you book a table for two?"', 'the answer on stdout, its figures on stderr'],
    ['brim ask "Tell me a story" --temperature 0.8 --seed 7', 'sampled, and repeatable'],
    ['brim ask "Where is it?" --json | jq .ttftMs', 'one JSON document'],
  ],
  options,
  run: ask,
})

async function ask(options: AskOptions, io: Io): Promise<void> {
  const response = await post(options, io.signal)
  let text = ''
  let report: Report | undefined
  let usage: z.infer<typeof Chunk>['usage']
  let finishReason: string | undefined
  for await (const chunk of chunksOf(response)) {
    if (chunk.error) throw remoteError(chunk.error)
    const [choice] = chunk.choices
    const piece = choice?.delta?.content ?? ''
    text += piece
    if (!options.json) io.write(piece)
    finishReason = choice?.finish_reason ?? finishReason
    report = chunk.brim ?? report
    usage = chunk.usage ?? usage
  }
  if (!report) throw new BrimError('LINK_LOST', 'the answer ended early', { hint: "the agent's log has the reason; ask again" })
  if (options.json) {
    const tokens = usage ? { promptTokens: usage.prompt_tokens, tokens: usage.completion_tokens } : {}
    io.out(JSON.stringify({ text, finishReason, ...tokens, ...report }))
  } else {
    io.write('\n')
    io.err(figuresOf(report))
  }
}

async function post(options: AskOptions, signal: AbortSignal): Promise<Response> {
  const { api, question, system, maxTokens, temperature, seed, fallback } = options
  const messages = [...(system === undefined ? [] : [{ role: 'system', content: system }]), { role: 'user', content: question }]
  const ours = fallback === undefined ? {} : { brim: { fallback } }
  const body = {
    messages,
    temperature,
    seed,
    max_tokens: maxTokens,
    stream: true,
    stream_options: { include_usage: true },
    ...ours,
  }
  const url = `${api.replace(/\/$/, '')}/v1/chat/completions`
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body), signal }).catch((cause: unknown) => {
    signal.throwIfAborted()
    throw new BrimError('AGENT_UNREACHABLE', `no agent responds at ${api}`, {
      cause: cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause,
      hint: 'start one with "brim agent run", or give the URL of its API with --api',
    })
  })
  if (response.ok) return response
  const parsed = z.object({ error: ErrorBody }).safeParse(await response.json().catch(() => undefined))
  if (parsed.success) throw remoteError(parsed.data.error)
  throw new BrimError('AGENT_UNREACHABLE', `${api} responds with status ${response.status}, but is not an agent`, {
    hint: 'check --api: is another server on that port?',
  })
}

/** @throws BrimError LINK_LOST where the connection breaks before the end */
async function* chunksOf(response: Response): AsyncGenerator<z.infer<typeof Chunk>> {
  if (!response.body) return
  try {
    for await (const data of readSse(response.body)) {
      if (data === '[DONE]') return
      yield Chunk.parse(JSON.parse(data))
    }
  } catch (cause) {
    if (cause instanceof BrimError) throw cause
    throw new BrimError('LINK_LOST', 'the connection to the agent broke during the answer', { cause })
  }
}

function remoteError({ message, code, hint }: z.infer<typeof ErrorBody>): BrimError {
  const known = Object.keys(errorCodes).find((name): name is keyof typeof errorCodes => name === code)
  return new BrimError(known ?? 'REQUEST_INVALID', message, hint == null ? {} : { hint })
}

function figuresOf({ ttftMs, tbtMs, acceptLength, bytesUp, bytesDown, ...more }: Report): string {
  const ms = (value: number | null) => (value === null ? '–' : `${value.toFixed(1)} ms`)
  const kB = (bytes: number) => `${(bytes / 1000).toFixed(1)} kB`
  return [
    `TTFT ${ms(ttftMs)}`,
    `TBT p50 ${ms(tbtMs.p50)}, p95 ${ms(tbtMs.p95)}`,
    `accept length ${acceptLength === null ? '–' : acceptLength.toFixed(2)}${more.drafting ? ` (${more.drafting.chosen})` : ''}`,
    `up ${kB(bytesUp)}, down ${kB(bytesDown)}`,
    ...(more.reusedTokens > 0 ? [`${more.reusedTokens} prompt tokens reused`] : []),
    ...(more.failovers > 0 ? [`${more.failovers} ${more.failovers === 1 ? 'failover' : 'failovers'}`] : []),
    ...(more.wire === 'fp16' ? [] : [`${more.wire} states: tokens may differ from the reference`]),
    ...(more.fallback ? [fallbackOf(more.sources, more.fallback)] : []),
  ].join(' · ')
}

/** Which tokens the small model decoded, and why. */
function fallbackOf(sources: Report['sources'], { code, message }: NonNullable<Report['fallback']>): string {
  const { from = 0, model } = sources.find(({ source }) => source === 'slm') ?? {}
  return `${from === 0 ? 'all tokens' : `tokens after the first ${from}`} by the local ${model}: ${message} [${code}]`
}
