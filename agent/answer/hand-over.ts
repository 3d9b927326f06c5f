import { BrimError, type ErrorCode } from '../../core/base/errors.ts'
import type { TextTokenizer } from '../../core/text/tokenizer.ts'
import type { LocalModel } from '../slm/local-model.ts'

/** The prompt for the local model; text becomes tokens only when they are needed. */
export type LocalPrompt =
  | { readonly kind: 'ids'; readonly ids: readonly number[] }
  | { readonly kind: 'text'; readonly text: string; readonly addSpecialTokens: boolean }

/** An answer at the moment when no bridge can be had for it. */
export interface Interrupted {
  readonly prompt: LocalPrompt
  /** What it has so far, in the split model's tokens. */
  readonly tokenIds: readonly number[]
  /** The split model's. */
  readonly tokenizer: TextTokenizer
  /** Of the whole answer. */
  readonly maxTokens: number
  readonly cause: BrimError
}

/** Where the local model goes on. */
export interface HandOver {
  /** Prompt and answer so far, in its own tokens. */
  readonly promptIds: readonly number[]
  /** The answer's part of `promptIds`. */
  readonly answerIds: readonly number[]
  /** Tokens that may follow: what is left of the answer, or of the local model's context. */
  readonly maxTokens: number
}

/** Without a bridge in time: at the start of an answer, or after it broke off and waited. */
const bridgeGone: ReadonlySet<ErrorCode> = new Set(['LINK_LOST', 'BRIDGE_UNREACHABLE', 'SESSION_REFUSED', 'NOT_AUTHORIZED'])

export const isBridgeGone = (error: unknown): error is BrimError => error instanceof BrimError && bridgeGone.has(error.code)

/**
 * The same tokens where both models read them alike; else the text so far, in whole characters, with the local model's
 * tokenizer. Prompt and answer become tokens separately, as they would have if it had written the answer itself.
 * @throws BrimError with the cause's code when its context does not hold them
 */
export function handOver(local: LocalModel, { prompt, tokenIds, tokenizer, maxTokens, cause }: Interrupted): HandOver {
  const { sameVocabulary, chain } = local
  const answerIds = sameVocabulary ? tokenIds : local.tokenizer.encode(textOf(tokenizer, tokenIds), { addSpecialTokens: false })
  const { contextLimit } = chain.manifest.dims
  const promptIds = [...idsOf(prompt, local.tokenizer), ...answerIds]
  const room = contextLimit - promptIds.length
  if (room < 1) throw tooLong(local.name, promptIds.length, contextLimit, cause)
  return { promptIds, answerIds, maxTokens: Math.min(maxTokens - tokenIds.length, room) }
}

function idsOf(prompt: LocalPrompt, tokenizer: TextTokenizer): readonly number[] {
  if (prompt.kind === 'ids') return prompt.ids
  return tokenizer.encode(prompt.text, { addSpecialTokens: prompt.addSpecialTokens })
}

function textOf(tokenizer: TextTokenizer, ids: readonly number[]): string {
  const detokenizer = tokenizer.detokenizer()
  return ids.map((id) => detokenizer.push(id)).join('')
}

/** It is the bridge that is missing: asked again when it is back, the same prompt is answered. */
const tooLong = (name: string, tokens: number, contextLimit: number, cause: BrimError) =>
  new BrimError(
    cause.code,
    `${cause.message}; and prompt and answer so far (${tokens} tokens) leave no room in the context of the device's own ${name} (${contextLimit} tokens)`,
    { cause, hint: 'ask again when a bridge is back, or shorten the prompt' },
  )
