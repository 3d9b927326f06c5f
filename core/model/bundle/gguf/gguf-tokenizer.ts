import { BrimError } from '../../../kit/base/errors.ts'
import type { GgufMetadata } from './gguf-metadata.ts'
import { preTokenizerOf } from './gguf-pre-tokenizers.ts'

/** llama.cpp's types of tokens. */
const tokenTypes = { unknown: 2, control: 3, userDefined: 4, unused: 5 } as const

/** Control tokens that end an answer in the chat formats of the supported families, as llama.cpp finds them. */
const endOfAnswer = new Set([
  ...['<|eot_id|>', '<|eom_id|>', '<|im_end|>', '<|end|>', '<end_of_turn>', '<|endoftext|>', '<|end_of_text|>', '<EOT>'],
])

interface Tokens {
  readonly texts: readonly string[]
  readonly types: readonly number[]
}

/** What stands beside the weights in a Hugging Face checkpoint, and the ids of its config.json. */
export interface GgufTexts {
  /** By name of the file. */
  readonly files: ReadonlyMap<string, string>
  readonly ids: { readonly bos_token_id?: number; readonly eos_token_id: readonly number[]; readonly pad_token_id?: number }
}

/**
 * Makes tokenizer.json, tokenizer_config.json and the chat template from the metadata of a file.
 * @param rows of the embedding
 * @throws BrimError TOKENIZER_INVALID, VOCABULARY_MISMATCH naming file and key
 */
export function readGgufTexts(metadata: GgufMetadata, rows: number): GgufTexts {
  const tokens = readTokens(metadata)
  if (tokens && tokens.texts.length > rows)
    throw new BrimError(
      'VOCABULARY_MISMATCH',
      `${metadata.file}: tokenizer.ggml.tokens has ${tokens.texts.length} tokens, but token_embd.weight has ${rows} rows`,
      { hint: 'take another conversion of the model: this one has the tokenizer of another model' },
    )
  const special = Object.fromEntries(
    ['bos', 'eos', 'unknown', 'padding', 'eot', 'eom'].map((name) => [name, readId(metadata, name, tokens)]),
  )
  const tokenizer = tokens && tokenizerOf(metadata, tokens, special)
  const ends = (tokens?.texts ?? []).flatMap((text, id) =>
    tokens?.types[id] === tokenTypes.control && endOfAnswer.has(text) ? [id] : [],
  )
  const eos = [special.eos, special.eot, special.eom, ...ends].filter((id) => id !== undefined)
  const text = (id: number | undefined) => (id === undefined ? undefined : tokens?.texts[id])
  const config = {
    ...{ bos_token: text(special.bos), eos_token: text(special.eos), unk_token: text(special.unknown) },
    ...{ pad_token: text(special.padding), ...chatTemplates(metadata) },
  }
  const files = new Map<string, string>()
  if (tokenizer) files.set('tokenizer.json', JSON.stringify(tokenizer))
  files.set('tokenizer_config.json', `${JSON.stringify(config, null, 1)}\n`)
  return {
    files,
    ids: {
      eos_token_id: [...new Set(eos)],
      ...(special.bos === undefined ? {} : { bos_token_id: special.bos }),
      ...(special.padding === undefined ? {} : { pad_token_id: special.padding }),
    },
  }
}

function invalid(metadata: GgufMetadata, what: string, hint = 'convert the model again with a recent llama.cpp'): BrimError {
  return new BrimError('TOKENIZER_INVALID', `${metadata.file}: ${what}`, { hint })
}

/** @returns undefined if the file has no vocabulary */
function readTokens(metadata: GgufMetadata): Tokens | undefined {
  const texts = metadata.texts('tokenizer.ggml.tokens')
  if (!texts) return undefined
  const types = metadata.numbers('tokenizer.ggml.token_type') ?? texts.map(() => 1)
  if (types.length !== texts.length)
    throw invalid(metadata, `tokenizer.ggml.token_type has ${types.length} items for ${texts.length} tokens`)
  return { texts, types }
}

function readId(metadata: GgufMetadata, name: string, tokens: Tokens | undefined): number | undefined {
  const key = `tokenizer.ggml.${name}_token_id`
  const id = metadata.count(key)
  if (id !== undefined && tokens && id >= tokens.texts.length)
    throw invalid(metadata, `${key} is ${id}, but the vocabulary has ${tokens.texts.length} tokens`)
  return id
}

function chatTemplates(metadata: GgufMetadata): object {
  const first = metadata.text('tokenizer.chat_template')
  const prefix = 'tokenizer.chat_template.'
  const others = metadata.keys(prefix).map((key) => ({ name: key.slice(prefix.length), template: metadata.text(key) }))
  if (first === undefined && others.length === 0) return {}
  if (others.length === 0) return { chat_template: first }
  return { chat_template: [...(first === undefined ? [] : [{ name: 'default', template: first }]), ...others] }
}

function tokenizerOf(metadata: GgufMetadata, tokens: Tokens, special: Record<string, number | undefined>): object {
  const model = metadata.text('tokenizer.ggml.model')
  if (model !== 'gpt2' && model !== 'llama')
    throw invalid(
      metadata,
      `tokenizer.ggml.model is ${model ?? 'missing'}; Brim reads gpt2 (BPE) and llama (SentencePiece)`,
      'build from the safetensors checkpoint of the model, with its tokenizer.json',
    )
  const { addsBos, ...form } =
    model === 'gpt2' ? byteLevelBpe(metadata, tokens) : sentencePieceBpe(metadata, tokens, special.unknown)
  const begins = metadata.flag('tokenizer.ggml.add_bos_token') ?? addsBos
  const ends = metadata.flag('tokenizer.ggml.add_eos_token') ?? false
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: addedTokens(tokens),
    ...form,
    post_processor: postProcessor(tokens, begins ? special.bos : undefined, ends ? special.eos : undefined),
  }
}

function addedTokens({ texts, types }: Tokens): object[] {
  const special: readonly number[] = [tokenTypes.control, tokenTypes.unknown]
  return texts.flatMap((content, id) => {
    const type = types[id]!
    if (!special.includes(type) && type !== tokenTypes.userDefined) return []
    const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false }
    return [{ id, content, ...flags, special: special.includes(type) }]
  })
}

function byteLevelBpe(metadata: GgufMetadata, { texts, types }: Tokens) {
  const { merges: wholeWords, addsBos, normalizer, pre_tokenizer } = preTokenizerOf(metadata)
  const merges = metadata.required('tokenizer.ggml.merges', metadata.texts('tokenizer.ggml.merges')).map((merge) => {
    const space = merge.indexOf(' ', 1)
    if (space < 0) throw invalid(metadata, `tokenizer.ggml.merges has the item ${JSON.stringify(merge)}, which is no pair`)
    return [merge.slice(0, space), merge.slice(space + 1)] as const
  })
  const isOwn = (id: number) =>
    ![tokenTypes.control, tokenTypes.userDefined, tokenTypes.unused].some((type) => type === types[id])
  const vocab = vocabulary(metadata, texts, isOwn)
  const unknown = merges.find(([left, right]) => ![left, right, left + right].every((piece) => vocab.has(piece)))
  if (unknown) throw invalid(metadata, `tokenizer.ggml.merges joins ${JSON.stringify(unknown.join(' '))}, which are no tokens`)
  return {
    addsBos,
    normalizer,
    pre_tokenizer,
    decoder: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false },
    model: bpe(vocab, merges, { unk_token: null, ignore_merges: wholeWords, byte_fallback: false, fuse_unk: false }),
  }
}

/** SentencePiece's BPE has no list of merges: of two neighbours whose union is a token, the one with the best score is merged first. */
function sentencePieceBpe(metadata: GgufMetadata, { texts }: Tokens, unknownId: number | undefined) {
  const scores = metadata.required('tokenizer.ggml.scores', metadata.numbers('tokenizer.ggml.scores'))
  if (scores.length !== texts.length)
    throw invalid(metadata, `tokenizer.ggml.scores has ${scores.length} items for ${texts.length} tokens`)
  const vocab = vocabulary(metadata, texts, () => true)
  const hasPrefix = metadata.flag('tokenizer.ggml.add_space_prefix') ?? true
  const spaces = { type: 'Replace', pattern: { String: ' ' }, content: '▁' }
  const toSpaces = { type: 'Replace', pattern: { String: '▁' }, content: ' ' }
  const decoders = [toSpaces, { type: 'ByteFallback' }, { type: 'Fuse' }]
  return {
    addsBos: true,
    normalizer: hasPrefix ? { type: 'Sequence', normalizers: [{ type: 'Prepend', prepend: '▁' }, spaces] } : spaces,
    pre_tokenizer: null,
    decoder: {
      type: 'Sequence',
      decoders: hasPrefix ? [...decoders, { type: 'Strip', content: ' ', start: 1, stop: 0 }] : decoders,
    },
    model: bpe(vocab, mergesByScore(vocab, scores), {
      ...{
        unk_token: unknownId === undefined ? null : texts[unknownId],
        ignore_merges: false,
        byte_fallback: true,
        fuse_unk: true,
      },
    }),
  }
}

function vocabulary(metadata: GgufMetadata, texts: readonly string[], isOwn: (id: number) => boolean): Map<string, number> {
  const vocab = new Map<string, number>()
  for (const [id, text] of texts.entries()) {
    if (!isOwn(id)) continue
    const other = vocab.get(text)
    if (other !== undefined)
      throw invalid(metadata, `tokenizer.ggml.tokens has ${JSON.stringify(text)} twice, as ${other} and ${id}`)
    vocab.set(text, id)
  }
  return vocab
}

/** By the score of the union; of equal ones, pieces with smaller ids come first, as in transformers' converter. */
function mergesByScore(vocab: ReadonlyMap<string, number>, scores: readonly number[]): [string, string][] {
  const merges: { pair: [string, string]; score: number; ids: [number, number] }[] = []
  for (const [text, id] of vocab) {
    if (text.length > maxPieceLength) continue
    for (let cut = 1; cut < text.length; cut++) {
      const pair: [string, string] = [text.slice(0, cut), text.slice(cut)]
      const ids = pair.map((piece) => vocab.get(piece))
      if (ids[0] !== undefined && ids[1] !== undefined) merges.push({ pair, score: scores[id]!, ids: [ids[0], ids[1]] })
    }
  }
  return merges.sort((a, b) => b.score - a.score || a.ids[0] - b.ids[0] || a.ids[1] - b.ids[1]).map(({ pair }) => pair)
}

/** SentencePiece's pieces have 16 characters by default; a hostile token of many would take quadratic time. */
const maxPieceLength = 256

function bpe(vocab: ReadonlyMap<string, number>, merges: readonly (readonly [string, string])[], options: object): object {
  return {
    ...{ type: 'BPE', dropout: null, continuing_subword_prefix: null, end_of_word_suffix: null },
    ...{ ...options, vocab: Object.fromEntries(vocab), merges },
  }
}

function postProcessor({ texts }: Tokens, bos: number | undefined, eos: number | undefined): object | null {
  if (bos === undefined && eos === undefined) return null
  const token = (id: number | undefined) => (id === undefined ? [] : [{ SpecialToken: { id: texts[id], type_id: 0 } }])
  const text = (name: 'A' | 'B') => ({ Sequence: { id: name, type_id: 0 } })
  const ids = [bos, eos].filter((id) => id !== undefined)
  return {
    type: 'TemplateProcessing',
    single: [...token(bos), text('A'), ...token(eos)],
    pair: [...token(bos), text('A'), ...token(eos), ...token(bos), text('B'), ...token(eos)],
    special_tokens: Object.fromEntries(ids.map((id) => [texts[id], { id: texts[id], ids: [id], tokens: [texts[id]] }])),
  }
}
