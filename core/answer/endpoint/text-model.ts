import { join } from 'node:path'
import { tokenizerHashOf } from '../../model/bundle/bundle-files.ts'
import { type Manifest, tokenizerFolder } from '../../model/bundle/manifest.ts'
import { createGrammars, type Grammars } from '../../model/grammar/grammars.ts'
import { type ChatTemplate, loadChatTemplate } from '../../model/text/chat-template.ts'
import { createPromptEncoder, type PromptEncoder } from '../../model/text/prompt-encoder.ts'
import { loadTokenizer, type TextTokenizer } from '../../model/text/tokenizer.ts'

/** How one model reads prompts and writes text. */
export interface TextModel {
  readonly name: string
  readonly dims: { readonly contextLimit: number; readonly vocab: number }
  /** Token ids that end an answer. */
  readonly eos: readonly number[]
  readonly tokenizer: TextTokenizer
  readonly chatTemplate: ChatTemplate | undefined
  readonly prompts: PromptEncoder
  /** Undefined: answers cannot be kept to grammars. */
  readonly grammars: Grammars | undefined
  /** SHA-256 of the tokenizer's file; undefined where the bundle does not list it. */
  readonly tokenizerHash: string | undefined
}

/** A model on another server, which takes text and returns text. */
export interface RemoteModel {
  readonly name: string
  readonly tokenizer?: undefined
}

/** @throws BrimError TOKENIZER_INVALID, CHAT_TEMPLATE_INVALID */
export async function loadTextModel(bundle: string, manifest: Manifest): Promise<TextModel> {
  const folder = join(bundle, tokenizerFolder)
  const [tokenizer, chatTemplate] = await Promise.all([loadTokenizer(folder), loadChatTemplate(folder)])
  return textModel(manifest, tokenizer, chatTemplate, folder)
}

/** @param folder of tokenizer and chat template; absent: long prompts are tokenised on the event loop, and there are no grammars */
export function textModel(
  manifest: Manifest,
  tokenizer: TextTokenizer,
  chatTemplate: ChatTemplate | undefined,
  folder?: string,
): TextModel {
  const { card, dims, tokens } = manifest
  const tokenizerHash = tokenizerHashOf(manifest)
  const { name } = card
  const prompts = createPromptEncoder({ name, tokenizer, chatTemplate, contextLimit: dims.contextLimit }, folder)
  const grammars = folder === undefined ? undefined : createGrammars(folder, tokens.eos)
  return { name, dims, eos: tokens.eos, tokenizer, chatTemplate, prompts, grammars, tokenizerHash }
}

/** Whether a model reads every token id of another one as the other does: same tokenizer file, vocabulary large enough. */
export function sharesTokens(own: TextModel, other: TextModel): boolean {
  if (own === other) return true
  return own.tokenizerHash !== undefined && own.tokenizerHash === other.tokenizerHash && own.dims.vocab >= other.dims.vocab
}

/** Token ids, and the model whose vocabulary they belong to. */
export interface Tokens {
  readonly model: TextModel
  readonly ids: readonly number[]
}

/** An answer so far: tokens, or the text of a server that does not tell its token ids. */
export type Answered = Tokens | { readonly text: string }

/** The ids as they are where the models share tokens; otherwise the text, in whole characters, tokenised again. */
export function inTokensOf(own: TextModel, answered: Answered): readonly number[] {
  if ('ids' in answered && sharesTokens(own, answered.model)) return answered.ids
  return own.tokenizer.encode(textOf(answered), { addSpecialTokens: false })
}

/** In whole characters. */
export function textOf(answered: Answered): string {
  if ('text' in answered) return answered.text
  const detokenizer = answered.model.tokenizer.detokenizer()
  return answered.ids.map((id) => detokenizer.push(id)).join('')
}
