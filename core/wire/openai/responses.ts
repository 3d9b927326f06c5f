import { createHash } from 'node:crypto'
import { z } from 'zod'
import { answerModes } from '../../kit/base/answer-modes.ts'
import type { AnswerEnd } from '../../model/text/answer-stream.ts'
import type { ChosenText, ScoredText } from '../../model/text/scored-text.ts'
import type { CallPiece } from '../../model/text/tool-reader.ts'
import { ErrorDetail } from './api-error.ts'

export const Usage = z.object({ prompt_tokens: z.int(), completion_tokens: z.int(), total_tokens: z.int() })
export type Usage = z.infer<typeof Usage>

/** How a bridge planned the answer, whose sketch devices may have expanded (PICE). */
const PiceReport = z.looseObject({
  mode: z.string(),
  reason: z.string().nullable(),
  level: z.int().nullable(),
  foreseenTokens: z.number().nullable(),
  fullS: z.number().nullable(),
  predictedS: z.number().nullable(),
  sketchLines: z.int(),
  sketchTokens: z.int(),
  expandedSentences: z.int(),
  completedSentences: z.int(),
  cloudTokens: z.int(),
  edgeTokens: z.int(),
})

/** What a reader uses of the `brim` field, our extension: how the answer was made. Fields with defaults are newer than the others. */
export const BrimReport = z.looseObject({
  ttftMs: z.number(),
  tbtMs: z.object({ p50: z.number().nullable(), p95: z.number().nullable() }),
  rounds: z.int().default(0),
  acceptLength: z.number().nullable(),
  bytesUp: z.number(),
  bytesDown: z.number(),
  drafting: z.looseObject({ chosen: z.string() }).nullish(),
  reusedTokens: z.int().default(0),
  failovers: z.int().default(0),
  wire: z.string().default('fp16'),
  computing: z.looseObject({ provider: z.string(), reason: z.string() }).nullish(),
  sources: z.array(z.looseObject({ from: z.int(), tokens: z.int(), source: z.string(), model: z.string() })).default([]),
  fallback: z.object({ code: z.string(), message: z.string() }).nullish(),
  disco: z
    .looseObject({
      mode: z.string(),
      migrations: z.array(z.looseObject({ from: z.string(), to: z.string(), reason: z.string(), succeeded: z.boolean() })),
      cost: z.record(z.string(), z.looseObject({ promptTokens: z.int(), tokens: z.int(), dollars: z.number().nullable() })),
      exhausted: z.string().nullish(),
      tokensPerS: z.number(),
      stalls: z.int(),
      stalledMs: z.number(),
    })
    .nullish(),
  pice: PiceReport.nullish(),
  rates: z.looseObject({ prefillTokensPerS: z.number().nullable(), upBytesPerS: z.number().nullable() }).nullish(),
  /** Present where the request asked for them. */
  tokenIds: z.array(z.int()).optional(),
})
export type BrimReport = z.infer<typeof BrimReport>

/** In events before the last: the lines of the answer's sketch that the text does not cover yet. */
const SketchProgress = z.object({ sketch: z.array(z.string()) })
export type SketchProgress = z.infer<typeof SketchProgress>

/** One event of a streamed answer, of either endpoint: a text, an end, figures, or an error. */
export const StreamEvent = z.looseObject({
  choices: z
    .array(
      z.looseObject({
        /** Of /v1/chat/completions. */
        delta: z.looseObject({ content: z.string().nullish() }).nullish(),
        /** Of /v1/completions. */
        text: z.string().nullish(),
        finish_reason: z.string().nullish(),
        /** Where the request asks for them: the tokens that are new with this event. */
        token_ids: z.array(z.int().min(0)).nullish(),
      }),
    )
    .default([]),
  usage: Usage.nullish(),
  brim: z.union([SketchProgress, BrimReport]).nullish(),
  error: ErrorDetail.nullish(),
})

const choice = {
  index: z.int().min(0),
  finish_reason: z.enum(['stop', 'length', 'tool_calls']),
  logprobs: z.looseObject({}).nullable(),
  token_ids: z.array(z.int().min(0)).optional(),
}
const answer = { id: z.string(), created: z.int(), model: z.string(), usage: Usage }
/** How each answer was made; of a response with one answer, beside its choices. */
const report = { brim: z.looseObject({}).optional() }

/** The response of POST /v1/chat/completions. */
export const ChatAnswer = z.object({
  ...answer,
  object: z.literal('chat.completion'),
  choices: z.array(
    z.object({
      ...choice,
      message: z.object({
        role: z.literal('assistant'),
        /** Null where the answer is nothing but calls. */
        content: z.string().nullable(),
        refusal: z.null(),
        /** Extension, as in vLLM: what the model thought first. */
        reasoning_content: z.string().optional(),
        tool_calls: z
          .array(
            z.object({
              id: z.string(),
              type: z.literal('function'),
              function: z.object({ name: z.string(), arguments: z.string() }),
            }),
          )
          .optional(),
      }),
      ...report,
    }),
  ),
  ...report,
})

/** The response of POST /v1/completions. */
export const CompletionAnswer = z.object({
  ...answer,
  object: z.literal('text_completion'),
  choices: z.array(z.object({ ...choice, text: z.string(), ...report })),
  ...report,
})

/** A model as /v1/models describes it. */
export const Model = z.object({
  id: z.string(),
  object: z.literal('model'),
  created: z.int().describe('Unix seconds.'),
  owned_by: z.string(),
  max_model_len: z
    .int()
    .nullable()
    .describe('Tokens of a prompt and its answer together, as vLLM names it; null where the answer comes from another server.'),
  brim: z.object({ modes: z.array(z.enum(answerModes)).describe('Values of `brim.mode` that it can answer in now.') }),
})
export type Model = z.infer<typeof Model>
export const ModelList = z.object({ object: z.literal('list'), data: z.array(Model) })

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
export interface Choice extends Omit<ResponsePiece, 'offset' | 'calls'> {
  readonly finishReason: FinishReason
  readonly called?: readonly { readonly name: string; readonly arguments: string }[]
  /** How it was made, where a response has several answers. */
  readonly brim?: object
}

/** The responses of one of OpenAI's endpoints. `index` is the number of the answer in its response. */
export interface ResponseFormat {
  readonly idPrefix: string
  whole(head: ResponseHead, choices: readonly Choice[]): object
  /** The event before any text; undefined where the endpoint has none. */
  first(head: ResponseHead, index: number): object | undefined
  text(head: ResponseHead, index: number, piece: ResponsePiece): object
  end(head: ResponseHead, index: number, finishReason: FinishReason): object
  /** The event that carries usage alone. */
  usage(head: ResponseHead): object
}

export const chatFormat: ResponseFormat = {
  idPrefix: 'chatcmpl',
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
}

export const completionFormat: ResponseFormat = {
  idPrefix: 'cmpl',
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
}

function chatDelta(head: ResponseHead, index: number, { text, reasoning, calls = [] }: Omit<ResponsePiece, 'offset'>): object {
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
const callId = ({ id }: ResponseHead, index: number, at: number): string =>
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

const completionEvent = (head: ResponseHead, index: number, piece: ResponsePiece, finishReason: FinishReason | null): object => ({
  ...head,
  object: 'text_completion',
  choices: [completion(index, piece, finishReason)],
})

const completion = (index: number, piece: ResponsePiece, finishReason: FinishReason | null): object => ({
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
  if (!tokens) return null
  const entry = (scored: ScoredText) => ({ token: tokenText(scored), logprob: logprobOf(scored), bytes: [...scored.bytes] })
  return { content: tokens.map((token) => ({ ...entry(token), top_logprobs: token.top.map(entry) })), refusal: null }
}

function completionLogprobs({ logprobs: tokens, offset }: ResponsePiece): object | null {
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
