import { z } from 'zod'

/**
 * Decodes single tokens, as streaming needs it: the bytes of each token, and the prefix that is stripped at the start of a
 * text. All decoders of known BPE checkpoints can be reduced to this form.
 */
interface TokenDecoder {
  bytesOf(token: string): Uint8Array
  /** sentencepiece adds a space before the first word; it is stripped again, at most `count` times. */
  readonly strip: { readonly content: string; readonly count: number }
}

const Step = z.discriminatedUnion('type', [
  z.object({ type: z.literal('ByteLevel') }),
  z.object({ type: z.literal('Replace'), pattern: z.object({ String: z.string() }), content: z.string() }),
  z.object({ type: z.literal('ByteFallback') }),
  z.object({ type: z.literal('Fuse') }),
  z.object({ type: z.literal('Strip'), content: z.string(), start: z.int().min(0), stop: z.literal(0) }),
  z.object({
    type: z.literal('Metaspace'),
    replacement: z.string(),
    prepend_scheme: z.enum(['always', 'first', 'never']).default('always'),
  }),
])
const Decoder = z.union([z.object({ type: z.literal('Sequence'), decoders: z.array(Step).min(1) }), Step])

/** @param decoder `decoder` of tokenizer.json. @throws Error naming an unsupported decoder */
export function tokenDecoder(decoder: unknown): TokenDecoder {
  const parsed = Decoder.safeParse(decoder)
  if (!parsed.success) throw new Error(`the decoder ${describe(decoder)} is not a BPE decoder that Brim supports`)
  const steps = parsed.data.type === 'Sequence' ? parsed.data.decoders : [parsed.data]
  const replace: [string, string][] = []
  let strip = { content: '', count: 0 }
  for (const step of steps) {
    if (step.type === 'Replace') replace.push([step.pattern.String, step.content])
    if (step.type === 'Strip') strip = { content: step.content, count: step.start }
    if (step.type === 'Metaspace') {
      replace.push([step.replacement, ' '])
      if (step.prepend_scheme !== 'never') strip = { content: ' ', count: 1 }
    }
  }
  const replaced = (token: string) => replace.reduce((text, [from, to]) => text.replaceAll(from, to), token)
  const encoder = new TextEncoder()
  const plain = (token: string) => encoder.encode(replaced(token))
  if (steps.some((step) => step.type === 'ByteLevel')) {
    const byteOf = byteLevelAlphabet()
    return { strip, bytesOf: (token) => byteLevelBytes(token, byteOf) ?? plain(token) }
  }
  if (steps.some((step) => step.type === 'ByteFallback'))
    return { strip, bytesOf: (token) => fallbackByte(token) ?? plain(token) }
  return { strip, bytesOf: plain }
}

/** A token with a character outside the alphabet (an added token) is plain text, as in the Rust tokenizers. */
function byteLevelBytes(token: string, byteOf: ReadonlyMap<string, number>): Uint8Array | undefined {
  const bytes: number[] = []
  for (const character of token) {
    const byte = byteOf.get(character)
    if (byte === undefined) return undefined
    bytes.push(byte)
  }
  return Uint8Array.from(bytes)
}

/** Bytes in the alphabet of byte-level tokenizers. */
export function byteLevelText(bytes: Uint8Array): string {
  characterOf ??= new Map([...byteLevelAlphabet()].map(([character, byte]) => [byte, character]))
  let text = ''
  for (const byte of bytes) text += characterOf.get(byte)!
  return text
}
let characterOf: ReadonlyMap<number, string> | undefined

function fallbackByte(token: string): Uint8Array | undefined {
  const match = /^<0x([0-9A-F]{2})>$/i.exec(token)
  return match?.[1] === undefined ? undefined : Uint8Array.of(Number.parseInt(match[1], 16))
}

/** GPT-2's alphabet: printable Latin-1 bytes are their own characters, the other 68 bytes map to U+0100 and up. */
function byteLevelAlphabet(): ReadonlyMap<string, number> {
  const printable = (byte: number) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174
  const byteOf = new Map<string, number>()
  let next = 256
  for (let byte = 0; byte < 256; byte++) byteOf.set(String.fromCodePoint(printable(byte) ? byte : next++), byte)
  return byteOf
}

function describe(decoder: unknown): string {
  const types = z.object({ type: z.string(), decoders: z.array(z.object({ type: z.string() })).default([]) }).safeParse(decoder)
  if (!types.success) return JSON.stringify(decoder)?.slice(0, 80) ?? 'undefined'
  const inner = types.data.decoders.map((step) => step.type).join(', ')
  return inner ? `${types.data.type}(${inner})` : types.data.type
}
