import { createHash } from 'node:crypto'
import type { AnswerEnd } from '../../model/text/answer-stream.ts'
import type { ChosenText, ScoredText } from '../../model/text/scored-text.ts'
import type { CallPiece } from '../../model/text/tool-reader.ts'
import { toErrorBody } from './api-error.ts'
import type { Usage } from './responses.ts'

/** What all events of one response have in common. */
export interface ResponseHead {
  readonly id: string
  /** Unix seconds. */
  readonly created: number
  readonly model: string
}

/** Text of an answer, and its tokens where log probabilities are asked for. */
export type FinishReason = AnswerEnd | 'tool_calls'

export interface ResponsePiece {
  readonly text: string
  /** Of chats: what the model thinks first, and pieces of its calls. */
  readonly reasoning?: string
  readonly calls?: readonly CallPiece[]
  readonly logprobs?: readonly ChosenText[] | undefined
  /** Where they are asked for. */
  readonly tokenIds?: readonly number[] | undefined
  /** Characters of the answer's tokens before: in completions, tokens have an offset. */
  readonly offset: number
  /** Of the answer so far. */
  readonly tokens: number
  /** Lines of the sketch that the text does not cover yet, where they have changed and the client reads them. */
  readonly sketch?: readonly string[] | undefined
}

/** As vLLM names tokens by their ids. */
const idPrefix = 'token_id:'

/** The tokens with their ids in the place of their texts. */
export const namedById = (tokens: ResponsePiece['logprobs']): ResponsePiece['logprobs'] =>
  tokens?.map((token) => ({ ...byId(token), top: token.top.map(byId) }))
const byId = <Token extends ScoredText>(token: Token): Token => ({ ...token, bytes: Buffer.from(idPrefix + token.token) })

/** The id in such a name; undefined: it is a text. */
export function idIn(name: string): number | undefined {
  const digits = name.startsWith(idPrefix) ? name.slice(idPrefix.length) : ''
  return /^\d{1,9}$/.test(digits) ? Number(digits) : undefined
}

/** One complete answer of a response. */
export interface Choice extends Omit<ResponsePiece, 'offset' | 'calls' | 'tokens' | 'sketch'> {
  readonly finishReason: FinishReason
  readonly called?: readonly { readonly name: string; readonly arguments: string }[]
  /** How it was made, where a response has several answers. */
  readonly brim?: object
}

/** What is known once all answers of a response are complete. */
export interface ResponseSummary {
  readonly usage: Usage
  /** How the answer was made, where there is one. */
  readonly brim: object | undefined
  /** Of the prompt, those that were in the cache. */
  readonly cachedTokens: number
}

/** One response. Its pieces come in, in their order; its events come out. `index` is the number of the answer in the response. */
export interface ResponseWriter {
  /** The events before any text of an answer. */
  first(index: number): readonly object[]
  text(index: number, piece: ResponsePiece): readonly object[]
  /** @param brim how the answer was made */
  end(index: number, finishReason: FinishReason, brim: object): readonly object[]
  /** After the end of all answers. */
  last(summary: ResponseSummary): readonly object[]
  /** In the place of all further events. */
  failed(error: unknown): object
  /** In the place of events, after all pieces. */
  whole(choices: readonly Choice[], summary: ResponseSummary): object
}

/** The responses of one of OpenAI's endpoints. */
export interface ResponseFormat {
  /** Of the ids of responses. */
  readonly idPrefix: string
  /** Whether events have a `type`, by which clients read them; otherwise a mark ends their stream. */
  readonly isTyped: boolean
  /** @param includeUsage whether a stream ends with an event of usage */
  open(head: ResponseHead, includeUsage: boolean): ResponseWriter
}

/** Responses in chunks that have nothing in common but their head. */
interface Chunks {
  readonly idPrefix: string
  whole(head: ResponseHead, choices: readonly Choice[]): object
  /** The event before any text; undefined where the endpoint has none. */
  first(head: ResponseHead, index: number): object | undefined
  text(head: ResponseHead, index: number, piece: ResponsePiece): object
  end(head: ResponseHead, index: number, finishReason: FinishReason): object
  /** The event that carries usage alone. */
  usage(head: ResponseHead): object
}

const inChunks = ({ idPrefix, ...chunks }: Chunks): ResponseFormat => ({
  idPrefix,
  isTyped: false,
  open(head, includeUsage) {
    // OpenAI: with include_usage every event but the last has a null usage.
    const noUsage = includeUsage ? { usage: null } : {}
    return {
      first(index) {
        const event = chunks.first(head, index)
        return event ? [{ ...event, ...noUsage }] : []
      },
      text: (index, { sketch, ...piece }) => [
        { ...chunks.text(head, index, piece), ...noUsage, ...(sketch && { brim: { sketch } }) },
      ],
      end: (index, finishReason, brim) => [{ ...chunks.end(head, index, finishReason), ...noUsage, brim }],
      last: ({ usage, brim }) => (includeUsage ? [{ ...chunks.usage(head), usage, ...(brim && { brim }) }] : []),
      failed: (error) => toErrorBody(error),
      whole: (choices, { usage, brim }) => ({ ...chunks.whole(head, choices), usage, ...(brim && { brim }) }),
    }
  },
})

export const chatFormat = inChunks({
  idPrefix: 'chatcmpl-',
  whole: (head, choices) => ({
    ...head,
    object: 'chat.completion',
    choices: choices.map(({ text, reasoning, called = [], logprobs, tokenIds, finishReason, brim }, index) => ({
      index,
      message: {
        role: 'assistant',
        content: text === '' && called.length > 0 ? null : text,
        refusal: null,
        ...(reasoning && { reasoning_content: reasoning }),
        ...(called.length > 0 && { tool_calls: called.map((call, at) => toolCall(head, index, at, call)) }),
      },
      logprobs: chatLogprobs(logprobs),
      finish_reason: finishReason,
      ...idsField(tokenIds),
      ...(brim && { brim }),
    })),
  }),
  first: (head, index) => chatEvent(head, index, { role: 'assistant', content: '' }, null),
  text: (head, index, { logprobs, tokenIds, ...piece }) =>
    chatEvent(head, index, chatDelta(head, index, piece), null, logprobs, tokenIds),
  end: (head, index, finishReason) => chatEvent(head, index, {}, finishReason),
  usage: (head) => ({ ...head, object: 'chat.completion.chunk', choices: [] }),
})

export const completionFormat = inChunks({
  idPrefix: 'cmpl-',
  whole: (head, choices) => ({
    ...head,
    object: 'text_completion',
    choices: choices.map(({ text, logprobs, tokenIds, finishReason, brim }, index) => ({
      ...completion(index, { text, logprobs, tokenIds, offset: 0 }, finishReason),
      ...(brim && { brim }),
    })),
  }),
  first: () => undefined,
  text: (head, index, piece) => completionEvent(head, index, piece, null),
  end: (head, index, finishReason) => completionEvent(head, index, { text: '', offset: 0 }, finishReason),
  usage: (head) => ({ ...head, object: 'text_completion', choices: [] }),
})

function chatDelta(
  head: ResponseHead,
  index: number,
  { text, reasoning, calls = [] }: Omit<ResponsePiece, 'offset' | 'tokens'>,
): object {
  return {
    ...((text !== '' || (!reasoning && calls.length === 0)) && { content: text }),
    ...(reasoning && { reasoning_content: reasoning }),
    ...(calls.length > 0 && { tool_calls: calls.map((call) => callDelta(head, index, call)) }),
  }
}

/** The first piece of a call has its id and name. */
const callDelta = (head: ResponseHead, index: number, { index: at, name, arguments: part }: CallPiece): object =>
  name === undefined
    ? { index: at, function: { arguments: part } }
    : { index: at, ...toolCall(head, index, at, { name, arguments: part }) }

const toolCall = (head: ResponseHead, index: number, at: number, call: NonNullable<Choice['called']>[number]) => ({
  id: callId(head, index, at),
  type: 'function',
  function: { name: call.name, arguments: call.arguments },
})

/** The same wherever the answer is sent again. Mistral's templates accept no ids but of nine letters and digits. */
export const callId = ({ id }: ResponseHead, index: number, at: number): string =>
  createHash('sha256').update(`${id}/${index}/${at}`).digest('hex').slice(0, 9)

function chatEvent(
  head: ResponseHead,
  index: number,
  delta: object,
  finishReason: FinishReason | null,
  logprobs?: ResponsePiece['logprobs'],
  tokenIds?: ResponsePiece['tokenIds'],
): object {
  const choice = { index, delta, logprobs: chatLogprobs(logprobs), finish_reason: finishReason, ...idsField(tokenIds) }
  return { ...head, object: 'chat.completion.chunk', choices: [choice] }
}

type CompletionPiece = Pick<ResponsePiece, 'text' | 'logprobs' | 'tokenIds' | 'offset'>

const completionEvent = (
  head: ResponseHead,
  index: number,
  piece: CompletionPiece,
  finishReason: FinishReason | null,
): object => ({
  ...head,
  object: 'text_completion',
  choices: [completion(index, piece, finishReason)],
})

const completion = (index: number, piece: CompletionPiece, finishReason: FinishReason | null): object => ({
  index,
  text: piece.text,
  logprobs: completionLogprobs(piece),
  finish_reason: finishReason,
  ...idsField(piece.tokenIds),
})

/** As vLLM names it. */
const idsField = (ids: ResponsePiece['tokenIds']): object => (ids ? { token_ids: ids } : {})

/** OpenAI's value for what JSON cannot hold: tokens that are impossible. */
const minLogprob = -9_999
const logprobOf = ({ logprob }: ScoredText) => Math.max(minLogprob, logprob)

/** The text of one token. Part of a character becomes U+FFFD. */
export const tokenText = ({ bytes }: ScoredText): string => Buffer.from(bytes).toString()

function chatLogprobs(tokens: ResponsePiece['logprobs']): object | null {
  return tokens ? { content: tokens.map(scoredToken), refusal: null } : null
}

/** A token with its log probability, and the likeliest ones in its place. */
export function scoredToken(token: ChosenText): object {
  const entry = (scored: ScoredText) => ({ token: tokenText(scored), logprob: logprobOf(scored), bytes: [...scored.bytes] })
  return { ...entry(token), top_logprobs: token.top.map(entry) }
}

function completionLogprobs({ logprobs: tokens, offset }: CompletionPiece): object | null {
  if (!tokens) return null
  let at = offset
  const offsets = tokens.map((token) => {
    const own = at
    at += tokenText(token).length
    return own
  })
  return {
    tokens: tokens.map(tokenText),
    token_logprobs: tokens.map(logprobOf),
    // Of tokens with the same text, such as parts of characters, the likeliest is listed.
    top_logprobs: tokens.map(({ top }) =>
      Object.fromEntries(top.map((each) => [tokenText(each), logprobOf(each)] as const).reverse()),
    ),
    text_offset: offsets,
  }
}
