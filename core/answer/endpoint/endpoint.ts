import type { AnswerMode } from '../../kit/base/answer-modes.ts'
import { BrimError } from '../../kit/base/errors.ts'
import { answerBudget } from '../../model/engine/generate.ts'
import type { TokenLogprobs } from '../../model/engine/logprobs.ts'
import { checkSampling, type Sampling } from '../../model/engine/sampler.ts'
import type { Grammar, TokenConstraint } from '../../model/grammar/grammar.ts'
import type { AnswerEnd } from '../../model/text/answer-stream.ts'
import { hermes } from '../../model/text/tool-format.ts'
import type { DiscoFigures, EndpointFigures, PiceFigures, RuleFigures } from './figures.ts'
import type { Prompt } from './prompt.ts'
import { type Answered, inTokensOf, type RemoteModel, type TextModel } from './text-model.ts'
import { callGrammar, type Tools } from './tools.ts'

/** A request for an answer, in terms that every endpoint understands. */
export interface AnswerRequest {
  readonly prompt: Prompt
  /** The answer so far: the endpoint continues after it. Absent: a new answer. */
  readonly answered?: Answered
  /** Whether the log probabilities of `answered` are wanted, too. Only models that run here have them. */
  readonly scoresAnswered?: boolean
  /** Tokens that may still follow; absent: as many as the context holds. */
  readonly maxTokens?: number
  readonly sampling: Sampling
  /** What the text is kept to; absent: nothing. */
  readonly grammar?: Grammar
  /** Functions that the answer may call; absent: none. */
  readonly tools?: Tools
  /** Likeliest tokens whose log probabilities are reported beside that of each token; absent: none are reported. */
  readonly logprobs?: number
  /** Tokens per second that the client reads, > 0; 0: it takes them as fast as they come; absent: unknown. */
  readonly tokensPerS?: number
  /** Strings that end the text. Readers of the tokens look for them: one may begin in one endpoint's tokens and end in another's. */
  readonly stop: readonly string[]
  /** Whether end-of-text tokens are tokens like any other: for measurements of a fixed length. */
  readonly ignoreEos?: boolean
  /** Whether the client wants the token ids, which the text of another server lacks. */
  readonly tokenIds?: boolean
  /** Whether the client gets the answer in one piece, and so does not read it while it is made. */
  readonly isWhole?: boolean
  /** How the client wants bridge (PICE) or device (DiSCo) to answer; absent: as it is configured. */
  readonly mode?: AnswerMode
  /** Whether no text may leave the device, in a mode that may ask a server. */
  readonly isPrivate?: boolean
  /** Whether the figures are to say what each way of answering was expected to take. */
  readonly isExplained?: boolean
  /** The device's small model may go on with the answer where HAT or the server fails. */
  readonly fallback?: 'slm'
  /** Identifies the requesting application: a prefix cached for one client is never reused for another. */
  readonly client: string
  /** W3C Trace Context: of the span that asks. What the endpoint asks of others carries it on. */
  readonly traceparent?: string
  /** Called when the answer waits for a bridge, because the connection to the one before was lost. */
  readonly onWaiting?: () => void
  /** Of a server that is paid. Absent: what it costs is of no interest. */
  readonly billing?: Billing
  /** Its entry in a device's ledger of what leaves it. Absent: the answer was begun by a job of a bridge. */
  readonly disclosed?: DisclosedAnswer
}

/** An answer in a device's ledger of what leaves it. */
export interface DisclosedAnswer {
  /** Its number. */
  readonly answer: number
  /** The owner's rule that has changed its mode. Absent: none has. */
  readonly rule?: RuleFigures | undefined
}

/** Learns from the endpoint of another server what may have to be paid for. A request that was sent and not refused is not repeated. */
export interface Billing {
  /** The server has the request, and may answer all of it, whether or not the answer arrives. */
  sent(): void
  /** It has responded that it does not answer. */
  refused(): void
  /** Its reader has left before the end. @param work that it may have done by then, at most; undefined: unknown */
  left(promptTokens: number | undefined, tokens: number | undefined): void
}

/** Whether only models whose tokens are known can answer the request: no server that takes text and returns text. */
export const needsTokens = ({ prompt, logprobs, ignoreEos, tokenIds }: AnswerRequest): boolean =>
  prompt.isTokens || logprobs !== undefined || ignoreEos === true || tokenIds === true

/** Makes answers. An endpoint may be one model or made of other endpoints. */
export interface Endpoint {
  /** The model that begins answers here. */
  readonly model: TextModel | RemoteModel
  /** Whether it goes on after the beginning of an answer (`answered`), where its model runs on another server. Absent: it does not. */
  readonly continues?: boolean
  /**
   * Aborting the signal or leaving the iteration stops the work within one step and frees what it held.
   * @throws BrimError CONTEXT_OVERFLOW, REQUEST_INVALID, CHAT_TEMPLATE_INVALID before any work; CANCELED; the model's own failures
   */
  answer(request: AnswerRequest, signal: AbortSignal): AsyncGenerator<AnswerDelta, void>
}

/**
 * An endpoint whose models run here. It can start at any token position, so that an answer can move between such endpoints
 * while it is being written: with the same seed, a continuation has the tokens that the model would have chosen there itself.
 */
export interface TokenEndpoint extends Endpoint {
  readonly model: TextModel
  answer(request: AnswerRequest, signal: AbortSignal): AsyncGenerator<TokenDelta, void>
}

export const isTokenEndpoint = (endpoint: Endpoint): endpoint is TokenEndpoint => endpoint.model.tokenizer !== undefined

/** A piece of an answer: tokens where its model runs here, text where another server made it. */
export type AnswerDelta = TokenDelta | TextDelta

interface CommonDelta {
  /** Set with the last delta. After 'stop' the last token of a TokenDelta is an end-of-text token, which has no text. */
  readonly end: AnswerEnd | undefined
  /** What the source has spent and measured up to this delta; absent where it reports only tokens. */
  figures?(): EndpointFigures
  /** Why this source continues an answer that another endpoint could not. */
  readonly cause?: BrimError
  /** How the answer was dispatched, and what it has cost up to this delta (DiSCo). */
  disco?(): DiscoFigures
}

/** Tokens that became certain at once. */
export interface TokenDelta extends CommonDelta {
  readonly source: {
    /** 'hat': the split model, with a bridge; 'slm': the device's small model; 'bridge': the bridge's own model. */
    readonly kind: 'hat' | 'slm' | 'bridge'
    readonly model: TextModel
  }
  /** In the vocabulary of the source's model. */
  readonly tokens: readonly number[]
  /** Of each token, where the request asks for them. */
  readonly logprobs?: readonly TokenLogprobs[]
  /** log2 p of each token of the request's `answered`, where it asks for them; with the first delta. */
  readonly answeredLog2?: readonly number[]
}

/** Text of a server that does not tell its token ids, or of a device that expanded a sentence of a sketch. */
export interface TextDelta extends CommonDelta {
  readonly source: {
    /** 'device': a device's small model; 'bridge': the bridge's own model, in an answer whose other parts are text. */
    readonly kind: 'upstream' | 'bridge' | 'device'
    readonly model: RemoteModel
    /** That wrote the text, for 'device'. */
    readonly device?: string
  }
  /** Whole characters; may be empty. */
  readonly text: string
  /** Tokens of this text, as far as the server counts them. */
  readonly tokenCount: number
  /** ln p of each token of this text, where the endpoint asks its server for them and the server gives them. */
  readonly logprobs?: readonly number[]
  /** Tokens of the prompt as the server counts them; with the last delta, if at all. */
  readonly promptTokens?: number
  /** The lines of the sketch that the text does not cover yet (PICE): set with each delta that changes them. No part of the text. */
  readonly sketch?: readonly string[]
  /** How PICE has made the answer up to this delta. */
  pice?(): PiceFigures
}

/** Where one model starts, in its own tokens. */
export interface Start {
  /** The prompt and the answer so far. */
  readonly ids: readonly number[]
  /** The answer so far, with which `ids` ends. */
  readonly answered: readonly number[]
  readonly maxTokens: number
  readonly eos: readonly number[]
}

/**
 * A new answer that its context cannot hold is rejected; a continuation ends early instead, with its context full.
 * @throws BrimError CONTEXT_OVERFLOW, REQUEST_INVALID, CHAT_TEMPLATE_INVALID, CANCELED
 */
export async function startOf(request: AnswerRequest, model: TextModel, signal: AbortSignal): Promise<Start> {
  const { prompt, answered, maxTokens, sampling, ignoreEos, client } = request
  checkSampling(sampling)
  const eos = ignoreEos ? [] : model.eos
  const promptIds = await prompt.idsFor(model, client, signal)
  if (!answered) return { ids: promptIds, answered: [], maxTokens: answerBudget(promptIds, maxTokens, model.dims), eos }
  const own = inTokensOf(model, answered)
  const ids = [...promptIds, ...own]
  const available = answerBudget(ids, undefined, model.dims)
  return { ids, answered: own, maxTokens: Math.min(maxTokens ?? available, available), eos }
}

/** What the model's text is kept to; undefined: nothing. */
export const grammarFor = ({ grammar, tools }: AnswerRequest, { chatTemplate }: TextModel): Grammar | undefined =>
  tools && grammar?.kind !== 'calls' ? callGrammar(tools, chatTemplate?.tools ?? hermes, grammar) : grammar

/**
 * What keeps the tokens of an answer to its grammar; undefined where it has none. The caller releases it.
 * @throws BrimError GRAMMAR_INVALID, GRAMMAR_TOO_COMPLEX, RUNTIME_FAILED
 */
export async function constraintOf(request: AnswerRequest, model: TextModel): Promise<TokenConstraint | undefined> {
  const { name, grammars } = model
  const grammar = grammarFor(request, model)
  if (!grammar) return undefined
  if (grammars) return grammars.open(grammar)
  throw new BrimError('GRAMMAR_INVALID', `${name} has no folder with a tokenizer, so that its answers follow no schema`)
}

/** Whether an answer ends with these tokens. @param left tokens that may follow them */
export function endOf(tokens: readonly number[], left: number, eos: readonly number[]): AnswerEnd | undefined {
  const last = tokens.at(-1)
  if (last !== undefined && eos.includes(last)) return 'stop'
  return left <= 0 ? 'length' : undefined
}
