import { BrimError } from '../../../kit/base/errors.ts'
import type { GgufMetadata } from './gguf-metadata.ts'

/** How a byte-level BPE tokenizer cuts a text into words, as the tokenizer.json of its family says. */
interface PreTokenizer {
  /** Words that are tokens are not merged. */
  readonly merges: boolean
  /** Unless the file says otherwise. */
  readonly addsBos: boolean
  readonly normalizer: object | null
  readonly pre_tokenizer: object
}

const contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
const rest = ' ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+'
const upper = '[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]'
const lower = '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]'
const restWithSlash = rest.replace('[\\r\\n]*', '[\\r\\n/]*')
const before = '[^\\r\\n\\p{L}\\p{N}]?'

const byteLevel = (usesPattern: boolean) => ({
  ...{ type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: usesPattern },
})
const sequence = (...pretokenizers: object[]) => ({ type: 'Sequence', pretokenizers })
const split = (pattern: string) =>
  sequence({ type: 'Split', pattern: { Regex: pattern }, behavior: 'Isolated', invert: false }, byteLevel(false))

const plain = { merges: false, addsBos: false, normalizer: null } as const
const llama3 = { ...plain, pre_tokenizer: split(`${contractions}|${before}\\p{L}+|\\p{N}{1,3}|${rest}`) }
const qwen2 = {
  ...{ ...plain, normalizer: { type: 'NFC' } },
  pre_tokenizer: split(`${contractions}|${before}\\p{L}+|\\p{N}|${rest}`),
}
const digits = { ...plain, pre_tokenizer: sequence({ type: 'Digits', individual_digits: true }, byteLevel(true)) }
const gpt2 = { ...plain, pre_tokenizer: byteLevel(true) }
const cased = (suffix: string, numbers: string) =>
  split(`${before}${upper}*${lower}+${suffix}|${before}${upper}+${lower}*${suffix}|${numbers}|${restWithSlash}`)

/** By `tokenizer.ggml.pre`. */
const preTokenizers: Readonly<Record<string, PreTokenizer>> = {
  ...{ default: gpt2, 'gpt-2': gpt2, olmo: gpt2, phi: gpt2, 'phi-2': gpt2 },
  ...{ qwen2, 'deepseek-r1-qwen': qwen2, dbrx: llama3, 'smaug-bpe': llama3 },
  'llama-bpe': { ...llama3, merges: true, addsBos: true },
  llama3: { ...llama3, merges: true, addsBos: true },
  tekken: { ...plain, merges: true, addsBos: true, pre_tokenizer: cased('', '\\p{N}') },
  'gpt-4o': { ...plain, pre_tokenizer: cased(`${contractions}?`, '\\p{N}{1,3}') },
  ...{ smollm: digits, refact: digits, starcoder: digits },
}

/** @throws BrimError TOKENIZER_INVALID naming file, key and the pre-tokenizers that Brim knows */
export function preTokenizerOf(metadata: GgufMetadata): PreTokenizer {
  const name = metadata.text('tokenizer.ggml.pre') ?? 'default'
  const known = Object.hasOwn(preTokenizers, name) ? preTokenizers[name] : undefined
  if (known) return known
  throw new BrimError('TOKENIZER_INVALID', `${metadata.file}: tokenizer.ggml.pre is ${name}, which Brim does not know`, {
    hint: `build from the safetensors checkpoint of the model; known: ${Object.keys(preTokenizers).join(', ')}`,
  })
}
