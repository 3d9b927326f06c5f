import { z } from 'zod'
import type { AnswerEnd } from '../../model/text/answer-stream.ts'
import type { ServerCounts } from '../../policy/upstream/server-counts.ts'
import { readSse } from '../../wire/openai/sse-reader.ts'
import type { TextDelta } from '../endpoint/endpoint.ts'
import { fewestTokens } from '../endpoint/fewest-tokens.ts'
import type { RemoteModel } from '../endpoint/text-model.ts'
import { CallText } from './call-text.ts'
import { brief, type UpstreamFailures } from './failure.ts'
import type { PromptTokens } from './request-body.ts'
import type { Watchdog } from './watchdog.ts'
import { wholeCharacters } from './whole-characters.ts'

export interface AnswerLimits {
  /** Between two pieces of an answer. */
  readonly idleMs: number
  /** Size of one event, in characters. */
  readonly eventChars: number
  /** Size of an answer's text, in bytes. */
  readonly answerBytes: number
}

export interface AnswerReading {
  readonly model: RemoteModel
  /** The model by the name that an event gives; absent: all events are taken for those of `model`. */
  readonly modelNamed?: (name: string) => RemoteModel
  /** Infinity: the server ends the answer. */
  readonly maxTokens: number
  /** What the server can count of the prompt; absent: any number. */
  readonly promptTokens?: PromptTokens
  /** How the server counts: learns from answers that it has counted, and counts those that it has not. Absent: nothing is known. */
  readonly counts?: ServerCounts
  /** Called for each event with text. @param bytes of its text, reasoning included. @param tokens of the answer so far, at least */
  readonly onEvent?: (bytes: number, tokens: number) => void
  /** Called where the server sends or claims more than it was asked for. @param message constant */
  readonly onExcess?: (message: string) => void
}

/** Reasoning that a server may count without sending it, where it was asked for any number of tokens. */
const maxHiddenTokens = 65_536

/** After an answer's end, for the event that counts its tokens. */
const usageMs = 2_000

/** Tokens without text of their own: parts of a character, or withheld because a stop string may begin. */
const maxPendingLogprobs = 4_096

const Text = z.string().nullish()
const Count = z.int().min(0).optional().catch(undefined)
const Usage = z.object({ prompt_tokens: Count, completion_tokens: Count })

const Logprob = z.number().transform((value) => Math.min(0, value))
const Logprobs = z.union([
  z
    .object({ content: z.array(z.object({ logprob: Logprob })) })
    .transform(({ content }) => content.map(({ logprob }) => logprob)),
  /** Of /v1/completions; the first token of a prompt has none. */
  z.object({ token_logprobs: z.array(Logprob) }).transform(({ token_logprobs }) => token_logprobs),
])

/** Pieces of calls: the first of each has its name. */
const ToolCalls = z
  .array(z.object({ index: z.int().min(0).default(0), function: z.object({ name: Text, arguments: Text }) }))
  .nullish()
  .catch(undefined)

/** What is read of an event. Servers differ in all that is optional here. */
const UpstreamEvent = z.object({
  model: Text.catch(undefined),
  choices: z
    .array(
      z.object({
        delta: z.object({ content: Text, reasoning_content: Text, reasoning: Text, tool_calls: ToolCalls }).nullish(),
        /** Of /v1/completions. */
        text: Text,
        finish_reason: Text,
        logprobs: Logprobs.nullish().catch(undefined),
      }),
    )
    .nullish(),
  usage: Usage.nullish().catch(undefined),
  error: z.union([z.string(), z.object({ message: z.string() })]).nullish(),
})

/** Reasons for which a server gives an answer up. */
const givenUp: ReadonlySet<string> = new Set(['abort', 'error'])

/**
 * The answer in a stream of events. Reasoning that precedes it is no part of it, but shows that the server works. What is
 * missing or broken after the answer's end is no failure.
 * @param model that was asked, and `maxTokens`, at which a server that ignores the limit is cut off
 * @throws BrimError UPSTREAM_FAILED; what reading the body throws
 */
export async function* readAnswer(
  body: AsyncIterable<Uint8Array>,
  {
    model,
    modelNamed = () => model,
    maxTokens,
    promptTokens: prompt = { least: 0, most: Number.MAX_SAFE_INTEGER },
    counts,
    onEvent = () => {},
    onExcess = () => {},
  }: AnswerReading,
  { idleMs, eventChars, answerBytes }: AnswerLimits,
  watchdog: Watchdog,
  failures: UpstreamFailures,
): AsyncGenerator<TextDelta> {
  let source = { kind: 'upstream', model } as const
  const isRepeated = repetitions()
  const calls = new CallText()
  const whole = wholeCharacters()
  let id: string | undefined
  const onId = (own: string) => {
    id = own
  }
  let tokens = 0
  let bytes = 0
  let reasoningBytes = 0
  let events = 0
  let end: AnswerEnd | undefined
  let usage: z.infer<typeof Usage> | undefined
  /** Of tokens whose text is still to come. */
  let logprobs: number[] = []
  const stalled = () => failures.failed(`sent nothing for ${idleMs / 1_000} s in the middle of an answer`)
  /** A server's own count: no more than what was asked for, and than what came and may have been left out of it. */
  const claimed = (name: keyof z.infer<typeof Usage>, most: number) => {
    const claim = usage?.[name] ?? 0
    if (claim > most) onExcess('the upstream claims more tokens than it was asked for')
    return Math.min(claim, most)
  }
  /** Tokens that are new with the text that is delivered now: as many as it must have, or as the server counts. */
  const count = (arrived: number, counted = 0) => {
    const before = tokens
    tokens = Math.min(maxTokens, Math.max(tokens + arrived, counted))
    tokens = Math.max(tokens, claimed('completion_tokens', Math.min(maxTokens, bytes + reasoningBytes + maxHiddenTokens)))
    return tokens - before
  }
  try {
    for await (const data of readSse(body, { maxChars: eventChars, onId })) {
      const own = id
      id = undefined
      if (isRepeated(own, data)) continue
      if (data === '[DONE]') {
        if (tokens > 0) end ??= 'stop'
        break
      }
      const event = parseEvent(data, failures)
      usage = event.usage ?? usage
      if (event.model) source = { kind: 'upstream', model: modelNamed(brief(event.model)) }
      const [choice] = event.choices ?? []
      const { delta, finish_reason: reason } = choice ?? {}
      const text = whole((choice?.text ?? delta?.content ?? '') + calls.push(delta?.tool_calls ?? [], reason != null))
      const scores = end === undefined && !delta?.reasoning_content && !delta?.reasoning ? (choice?.logprobs ?? []) : []
      logprobs = [...logprobs, ...scores].slice(-maxPendingLogprobs)
      const reasoning = delta?.reasoning_content ?? delta?.reasoning
      if (reasoning) {
        const own = Buffer.byteLength(reasoning)
        reasoningBytes += own
        events += 1
        onEvent(own, tokens)
        watchdog.allow(idleMs, stalled)
      }
      if (text && end === undefined) {
        const within = fewestTokens(text, maxTokens - tokens)
        const isCut = within.length < text.length || tokens >= maxTokens
        if (isCut) onExcess('the upstream sent more than max_tokens: its answer was cut')
        const content = text.slice(0, within.length)
        if (tokens < maxTokens) {
          const own = Buffer.byteLength(content)
          bytes += own
          events += 1
          if (bytes > answerBytes) throw failures.failed(`sent an answer of more than ${answerBytes} bytes`)
          // A reader that takes its time is not the server's delay.
          watchdog.pause()
          const tokenCount = count(Math.max(1, logprobs.length, within.tokens))
          onEvent(own, tokens)
          yield { source, text: content, tokenCount, ...(logprobs.length > 0 && { logprobs }), end: undefined }
          logprobs = []
          watchdog.allow(idleMs, stalled)
        }
        if (isCut) {
          end = 'length'
          break
        }
      }
      if (!reason || end !== undefined) continue
      if (givenUp.has(reason)) throw failures.failed(`gave the answer up ("${brief(reason)}")`)
      end = reason === 'length' ? 'length' : 'stop'
      watchdog.allow(usageMs, stalled)
    }
  } catch (error) {
    if (end === undefined) throw error
  }
  if (end === undefined) throw failures.brokenOff()
  const arrived = { bytes: bytes + reasoningBytes, events }
  const { prompt_tokens: promptClaim, completion_tokens: claim } = usage ?? {}
  // What it claims beyond what is possible teaches nothing.
  if (promptClaim !== undefined && claim !== undefined && promptClaim <= prompt.most && claim <= maxTokens)
    counts?.learn(prompt.most, arrived, { promptTokens: Math.max(prompt.least, promptClaim), tokens: Math.max(tokens, claim) })
  const expected = claim === undefined || promptClaim === undefined ? counts?.expected(prompt.most, arrived) : undefined
  const tokenCount = count(0, claim === undefined ? expected?.tokens : 0)
  const promptTokens =
    promptClaim === undefined ? expected && Math.min(prompt.most, expected.promptTokens) : claimed('prompt_tokens', prompt.most)
  const isCounted = promptTokens !== undefined && (claim !== undefined || expected !== undefined)
  yield { source, text: '', tokenCount, end, ...(isCounted && { promptTokens: Math.max(prompt.least, promptTokens) }) }
}

/** Whether an event repeats the one before it, as a proxy may send it: its id tells, as the same text may well follow itself. */
function repetitions(): (id: string | undefined, data: string) => boolean {
  let last = ''
  return (id, data) => {
    const event = `${id}\n${data}`
    const isRepeated = id !== undefined && event === last
    last = event
    return isRepeated
  }
}

/** @throws BrimError UPSTREAM_FAILED, also for an event that reports a failure */
function parseEvent(data: string, failures: UpstreamFailures): z.infer<typeof UpstreamEvent> {
  const parsed = UpstreamEvent.safeParse(parseJson(data))
  if (!parsed.success) throw failures.failed('sent an event that is none of OpenAI’s API', { cause: parsed.error })
  const { error } = parsed.data
  if (error) throw failures.failed(`reports: ${brief(typeof error === 'string' ? error : error.message)}`)
  return parsed.data
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
