import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Tokenizer } from '@huggingface/tokenizers'
import { z } from 'zod'
import { BrimError } from '../../kit/base/errors.ts'
import { isLfsPointer, lfsHint, lfsProblem } from '../../kit/base/lfs-pointer.ts'
import { Detokenizer } from './detokenizer.ts'
import { tokenDecoder } from './token-decoder.ts'
import { readTokenizerConfig } from './tokenizer-config.ts'
import { visibleTokens } from './tool-format.ts'

export const tokenizerFile = 'tokenizer.json'

/** Converts between text and token ids, as transformers does with the same folder. */
export interface TextTokenizer {
  /** Ids are 0 to vocabSize - 1; a model's vocabulary may be padded beyond that. */
  readonly vocabSize: number
  /** Upper bound of the bytes of text that one token covers. */
  readonly maxTokenBytes: number
  /** Ids of special tokens (end of text, roles), which are not part of an answer's text. */
  readonly specialIds: ReadonlySet<number>
  /** `addSpecialTokens` (default true) adds the checkpoint's special tokens, usually one for the beginning of the text. */
  encode(text: string, options?: { addSpecialTokens?: boolean }): number[]
  /** Special tokens are part of the text unless `skipSpecialTokens` is set. Ids without a token have no text. */
  decode(ids: readonly number[], options?: { skipSpecialTokens?: boolean }): string
  /** A detokenizer for one streamed answer; special tokens have no text. */
  detokenizer(): Detokenizer
  /** The text of one token, special ones included, which may be part of a character. */
  bytesOf(id: number): Uint8Array
  idOf(token: string): number | undefined
  tokenOf(id: number): string | undefined
}

const id = z.int().min(0)
const TokenizerJson = z.looseObject({
  added_tokens: z.array(z.looseObject({ id, content: z.string(), special: z.boolean() })).default([]),
  normalizer: z.unknown(),
  pre_tokenizer: z.unknown(),
  post_processor: z.unknown(),
  decoder: z.unknown(),
  model: z.looseObject({ type: z.literal('BPE').optional(), vocab: z.record(z.string(), id), merges: z.array(z.unknown()) }),
})
type TokenizerJson = z.infer<typeof TokenizerJson>

/**
 * @param dir folder with tokenizer.json and, if there is one, tokenizer_config.json
 * @throws BrimError TOKENIZER_INVALID naming the file
 */
export async function loadTokenizer(dir: string): Promise<TextTokenizer> {
  const file = join(dir, tokenizerFile)
  const config = await readTokenizerConfig(dir)
  const json = await readTokenizerJson(file)
  try {
    // The library encodes. Decoding is implemented here, because streaming needs the bytes of each token.
    const library = new Tokenizer(json, config.raw)
    const configured = new Set(Object.values(config.specialTokens))
    return textTokenizer(library, json, configured)
  } catch (cause) {
    throw invalid(file, cause instanceof Error ? cause.message : String(cause), cause)
  }
}

/** Unicode normalisation shortens a text to a quarter at most: mathematical letters of four bytes become ASCII. */
const maxShrinkage = 4

function textTokenizer(library: Tokenizer, json: TokenizerJson, configured: ReadonlySet<string>): TextTokenizer {
  const decoder = tokenDecoder(json.decoder)
  const special = json.added_tokens.filter(
    ({ special, content }) => (special || configured.has(content)) && !visibleTokens.has(content),
  )
  const specialIds = new Set(special.map((token) => token.id))
  let vocabSize = 0
  let longest = 1
  const all = [...Object.entries(json.model.vocab), ...json.added_tokens.map(({ content, id }) => [content, id] as const)]
  for (const [token, id] of all) {
    vocabSize = Math.max(vocabSize, id + 1)
    longest = Math.max(longest, Buffer.byteLength(token))
  }

  const known: Uint8Array[] = []
  const none = new Uint8Array(0)
  const bytesOf = (id: number): Uint8Array => {
    const token = known[id] === undefined ? library.id_to_token(id) : undefined
    if (token !== undefined) known[id] = decoder.bytesOf(token)
    return known[id] ?? none
  }
  const withSpecial = { bytesOf, strip: decoder.strip }
  const withoutSpecial = { bytesOf: (id: number) => (specialIds.has(id) ? none : bytesOf(id)), strip: decoder.strip }

  return {
    vocabSize,
    maxTokenBytes: json.normalizer == null ? longest : maxShrinkage * longest,
    specialIds,
    encode: (text, { addSpecialTokens = true } = {}) => library.encode(text, { add_special_tokens: addSpecialTokens }).ids,
    decode(ids, { skipSpecialTokens = false } = {}) {
      const detokenizer = new Detokenizer(skipSpecialTokens ? withoutSpecial : withSpecial)
      const pieces = ids.map((id) => detokenizer.push(id))
      return pieces.join('') + detokenizer.flush()
    },
    detokenizer: () => new Detokenizer(withoutSpecial),
    bytesOf,
    idOf: (token) => library.token_to_id(token),
    tokenOf: (id) => library.id_to_token(id),
  }
}

async function readTokenizerJson(file: string): Promise<TokenizerJson> {
  let json: unknown
  let text = ''
  try {
    text = await readFile(file, 'utf8')
    json = JSON.parse(text)
  } catch (cause) {
    if (isLfsPointer(text)) throw new BrimError('TOKENIZER_INVALID', `${file} ${lfsProblem}`, { hint: lfsHint })
    throw invalid(file, cause instanceof SyntaxError ? 'it is not JSON' : 'it cannot be read', cause)
  }
  const type = z.object({ model: z.object({ type: z.string() }) }).safeParse(json)
  if (type.success && type.data.model.type !== 'BPE')
    throw invalid(file, `its model is ${type.data.model.type}; Brim supports only BPE`)
  const parsed = TokenizerJson.safeParse(json)
  if (!parsed.success) throw invalid(file, z.prettifyError(parsed.error))
  return parsed.data
}

function invalid(file: string, why: string, cause?: unknown): BrimError {
  return new BrimError('TOKENIZER_INVALID', `${file}: ${why}`, {
    ...(cause === undefined ? {} : { cause }),
    hint: 'copy tokenizer.json from the checkpoint again; to convert a tokenizer.model, load and save it with transformers',
  })
}
