import { z } from 'zod'
import { endOf, type TokenDelta } from '../../core/answer/endpoint/endpoint.ts'
import type { TextModel } from '../../core/answer/endpoint/text-model.ts'
import { brief } from '../../core/answer/upstream/failure.ts'
import type { Watchdog } from '../../core/answer/upstream/watchdog.ts'
import type { TokenLogprobs } from '../../core/model/engine/logprobs.ts'
import { idIn } from '../../core/wire/openai/response-formats.ts'
import { readSse } from '../../core/wire/openai/sse-reader.ts'
import type { BridgeFailures } from './bridge-failures.ts'

export interface ReadLimits {
  /** Between two events of an answer. */
  readonly idleMs: number
  /** Size of one event, in characters. */
  readonly eventChars: number
}

/** How far an answer has been read, over all its streams. Mutable. */
export interface ReadProgress {
  tokens: number
  /** Of the last event with tokens; undefined: the answer cannot be resumed. */
  lastId?: string | undefined
}

export interface AnswerAsked {
  readonly model: TextModel
  /** Infinity: as many as the bridge's context holds. */
  readonly maxTokens: number
  readonly eos: readonly number[]
}

const Logprob = z.number().max(0)
const Logprobs = z.object({
  tokens: z.array(z.string()),
  token_logprobs: z.array(Logprob),
  top_logprobs: z.array(z.record(z.string(), Logprob)),
})

const TokenEvent = z.object({
  model: z.string().nullish(),
  choices: z
    .array(
      z.object({
        token_ids: z.array(z.int().min(0)).nullish(),
        finish_reason: z.string().nullish(),
        logprobs: Logprobs.nullish(),
      }),
    )
    .nullish(),
  error: z.object({ message: z.string() }).nullish(),
})
type TokenEvent = z.infer<typeof TokenEvent>

/**
 * The tokens in a stream of events of a bridge's /v1/completions, each exactly once: the ids of events count the tokens, so
 * that a repeated event is left out, and a missing one is a failure.
 * @param progress of a stream that was lost, which this one goes on after
 * @throws BrimError UPSTREAM_FAILED, BUNDLE_MISMATCH, LINK_LOST; what reading the body throws
 */
export async function* readTokens(
  body: AsyncIterable<Uint8Array>,
  { model, maxTokens, eos }: AnswerAsked,
  { idleMs, eventChars }: ReadLimits,
  watchdog: Watchdog,
  failures: BridgeFailures,
  progress: ReadProgress = { tokens: 0 },
): AsyncGenerator<TokenDelta, void> {
  const source = { kind: 'bridge', model } as const
  const stalled = () => failures.failed(`sent nothing for ${idleMs / 1_000} s in the middle of an answer`)
  let count = progress.tokens
  let id: string | undefined
  const onId = (own: string) => {
    id = own
  }
  for await (const data of readSse(body, { maxChars: eventChars, onId })) {
    if (data === '[DONE]') break
    const { model: name, choices, error } = parseEvent(data, failures)
    if (error) throw failures.failed(`reports: ${brief(error.message)}`)
    if (name != null && name !== model.name) throw failures.otherModel(brief(name))
    const [choice] = choices ?? []
    const received = choice?.token_ids ?? []
    const counted = countIn(id)
    const total = counted ?? count + received.length
    progress.lastId = counted === undefined ? progress.lastId : id
    id = undefined
    const fresh = Math.max(0, total - count)
    if (fresh > received.length) throw failures.failed(`left out ${fresh - received.length} tokens of an answer`)
    if (fresh > 0) {
      const tokens = received.slice(received.length - fresh)
      const foreign = tokens.find((token) => token >= model.dims.vocab)
      if (foreign !== undefined) throw failures.failed(`sent the token id ${foreign}, which its vocabulary lacks`)
      count = total
      progress.tokens = total
      const end = endOf(tokens, maxTokens - count, eos)
      // A reader that takes its time is not the server's delay.
      watchdog.pause()
      yield { source, tokens, end, ...logprobsOf(choice, tokens, received.length, failures) }
      if (end) return
    }
    watchdog.allow(idleMs, stalled)
    const reason = choice?.finish_reason
    if (reason == null) continue
    if (reason !== 'length') throw failures.failed(`ended its answer ("${brief(reason)}") without an end-of-text token`)
    // Its context may be smaller than this device's.
    return yield { source, tokens: [], end: 'length' }
  }
  throw failures.brokenOff()
}

/** Tokens of the answer with this event; undefined: its id does not tell. */
function countIn(id: string | undefined): number | undefined {
  const [, digits] = /\/(\d{1,9})$/.exec(id ?? '') ?? []
  return digits === undefined ? undefined : Number(digits)
}

/** @param received tokens of the event, of which `tokens` are the last; a final end-of-text token has no log probability */
function logprobsOf(
  choice: NonNullable<TokenEvent['choices']>[number] | undefined,
  tokens: readonly number[],
  received: number,
  failures: BridgeFailures,
): Pick<TokenDelta, 'logprobs'> {
  const scored = choice?.logprobs
  if (!scored) return {}
  const named = (name: string, logprob: number) => {
    const token = idIn(name)
    if (token === undefined) throw failures.failed('sent log probabilities without token ids')
    return { token, logprob }
  }
  const all = scored.tokens.map((name, at): TokenLogprobs => {
    const top = Object.entries(scored.top_logprobs[at] ?? {}).map(([other, logprob]) => named(other, logprob))
    return { ...named(name, scored.token_logprobs[at] ?? 0), top: top.sort((a, b) => b.logprob - a.logprob) }
  })
  const logprobs = all.slice(received - tokens.length)
  if (logprobs.some(({ token }, at) => token !== tokens[at]))
    throw failures.failed('sent log probabilities of other tokens than those of its answer')
  return { logprobs }
}

/** @throws BrimError UPSTREAM_FAILED */
function parseEvent(data: string, failures: BridgeFailures): TokenEvent {
  try {
    return TokenEvent.parse(JSON.parse(data))
  } catch (cause) {
    throw failures.failed('sent an event that cannot be read', { cause })
  }
}
