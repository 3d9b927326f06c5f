import {
  type CodedSize,
  type CodingTables,
  codedBytes,
  codingId,
  maxCodeBits,
  type StateCoding,
  symbolCount,
} from './state-coding.ts'

/** Bits below sign and exponent that follow each code; the lower 8 are raw bytes. */
const upperBits = 2
/** The decoder reads 4 bytes at a time: so many may lie behind the last code. */
const spareBytes = 3

/**
 * Codes fp16 rows without loss, each shape of block to one length. A block of n rows is n × width bytes (bits 0 to 7 of each
 * value), then for each value, from the lowest bit of each byte on: the code of bits 10 to 15, and bits 8 and 9. The values of
 * the first half of the channels follow each other from the front, those of the other half from the end, the last byte first:
 * a processor decodes two of them at once. Zeros lie between.
 */
export class RowCoder implements CodedSize {
  readonly width: number
  readonly rowBits: number
  readonly slackBits: number
  /** [channels] where the codes of the channel's table begin in `#codes`. */
  readonly #codesOf: Uint16Array
  /** [channels] where its table begins in `#symbols`. */
  readonly #symbolsOf: Uint16Array
  /** [tables, 64] length << 16 | bits of the code, the first one lowest. */
  readonly #codes: Uint32Array
  /** [tables, 2 ** maxCodeBits] by the next bits: symbol << 4 | length of its code. */
  readonly #symbols: Uint16Array

  constructor({ channels, lengths, rowBits, slackBits }: CodingTables) {
    this.width = channels.length
    this.rowBits = rowBits
    this.slackBits = slackBits
    const tables = Uint8Array.from(channels, (digit) => Number.parseInt(digit, 16))
    this.#codesOf = Uint16Array.from(tables, (table) => table * symbolCount)
    this.#symbolsOf = Uint16Array.from(tables, (table) => table << maxCodeBits)
    this.#codes = new Uint32Array(lengths.length * symbolCount)
    this.#symbols = new Uint16Array(lengths.length << maxCodeBits)
    for (const [table, digits] of lengths.entries())
      for (const { symbol, length, bits } of canonicalCodes(digits)) {
        this.#codes[table * symbolCount + symbol] = (length << 16) | bits
        for (let next = bits; next < 1 << maxCodeBits; next += 1 << length)
          this.#symbols[(table << maxCodeBits) + next] = (symbol << 4) | length
      }
  }

  /**
   * @param half [rows, width]
   * @param skipped rows that the decoder will skip, too
   * @returns `codedBytes` of as many rows; undefined: these rows need more
   */
  encode(half: Uint16Array, rows: number, skipped: readonly number[] = []): Uint8Array | undefined {
    if (rows === 0) return new Uint8Array(0)
    const { width } = this
    const out = new Uint8Array(codedBytes(this, rows))
    const raw = rows * width
    const middle = width >>> 1
    const front = this.#write({ half, rows, skipped, from: 0, to: middle }, out, raw, 1)
    const back = this.#write({ half, rows, skipped, from: middle, to: width }, out, out.length - 1, -1)
    return front + back + spareBytes <= out.length - raw ? out : undefined
  }

  /** Writes the raw bytes and the codes of some channels. @param step to the next byte @returns bytes, also beyond the end of `out` */
  #write({ half, rows, skipped, from, to }: Coded, out: Uint8Array, begin: number, step: 1 | -1): number {
    const { width } = this
    const codes = this.#codes
    const codesOf = this.#codesOf
    let at = begin
    let waiting = 0
    let count = 0
    for (let row = 0; row < rows; row++) {
      if (skipped.includes(row)) continue
      for (let channel = from, i = row * width + from; channel < to; channel++, i++) {
        const value = half[i]!
        out[i] = value
        const code = codes[codesOf[channel]! + (value >>> 10)]!
        const length = code >>> 16
        waiting |= ((code & 0xffff) | (((value >>> 8) & 3) << length)) << count
        count += length + upperBits
        if (count >= 16) {
          out[at] = waiting
          out[at + step] = waiting >>> 8
          at += 2 * step
          waiting >>>= 16
          count -= 16
        }
      }
    }
    // The other half may begin right behind.
    if (count > 0) out[at] = waiting
    if (count > 8) out[at + step] = waiting >>> 8
    return step * (at - begin) + Math.ceil(count / 8)
  }

  /**
   * @param bytes as `encode` made them; of any others some rows are made
   * @returns [rows, width] halves, zeros in skipped rows; undefined: the codes go on behind the end
   */
  decode(bytes: Uint8Array, rows: number, skipped: readonly number[] = []): Uint16Array | undefined {
    if (rows === 0) return new Uint16Array(0)
    const { width } = this
    const symbols = this.#symbols
    const symbolsOf = this.#symbolsOf
    const mask = (1 << maxCodeBits) - 1
    const raw = rows * width
    const half = new Uint16Array(raw)
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    const last = bytes.byteLength - 4
    const limit = 8 * (bytes.byteLength - raw - spareBytes)
    const middle = width >>> 1
    let front = 0
    let back = 0
    for (let row = 0; row < rows; row++) {
      if (skipped.includes(row)) continue
      let i = row * width
      for (let channel = 0; channel < middle; channel++, i++) {
        // So no read is outside the block, whatever it holds.
        if (front + back >= limit) return undefined
        const ahead = view.getUint32(raw + (front >>> 3), true) >>> (front & 7)
        const behind = view.getUint32(last - (back >>> 3)) >>> (back & 7)
        const first = symbols[symbolsOf[channel]! + (ahead & mask)]!
        const second = symbols[symbolsOf[channel + middle]! + (behind & mask)]!
        const firstLength = first & 15
        const secondLength = second & 15
        half[i] = ((first >>> 4) << 10) | (((ahead >>> firstLength) & 3) << 8) | bytes[i]!
        half[i + middle] = ((second >>> 4) << 10) | (((behind >>> secondLength) & 3) << 8) | bytes[i + middle]!
        front += firstLength + upperBits
        back += secondLength + upperBits
      }
      if ((width & 1) === 0) continue
      if (front + back >= limit) return undefined
      const behind = view.getUint32(last - (back >>> 3)) >>> (back & 7)
      const symbol = symbols[symbolsOf[width - 1]! + (behind & mask)]!
      half[i + middle] = ((symbol >>> 4) << 10) | (((behind >>> (symbol & 15)) & 3) << 8) | bytes[i + middle]!
      back += (symbol & 15) + upperBits
    }
    return front + back > limit ? undefined : half
  }
}

/** Channels [from, to) of these rows. */
interface Coded {
  readonly half: Uint16Array
  readonly rows: number
  readonly skipped: readonly number[]
  readonly from: number
  readonly to: number
}

/** The coders of a split model's rows, either way. */
export interface StateCoders {
  /** See `codingId`. */
  readonly id: string
  readonly up: RowCoder
  readonly down: RowCoder
}

/** Undefined: the bundle has no tables. */
export function stateCoders({ modelId, coding }: { readonly modelId: string; readonly coding?: StateCoding | undefined }) {
  if (!coding) return undefined
  return {
    id: codingId(modelId, coding),
    up: new RowCoder(coding.shallow),
    down: new RowCoder(coding.deep),
  } satisfies StateCoders
}

/** Codes of these lengths in the order of lengths, then symbols, with their first bit lowest. */
function canonicalCodes(digits: string): { symbol: number; length: number; bits: number }[] {
  const ordered = [...digits]
    .map((digit, symbol) => ({ symbol, length: Number.parseInt(digit, 16) }))
    .sort((a, b) => a.length - b.length || a.symbol - b.symbol)
  let code = 0
  let before = 0
  return ordered.map(({ symbol, length }) => {
    code <<= length - before
    before = length
    const bits = reversed(code, length)
    code += 1
    return { symbol, length, bits }
  })
}

function reversed(code: number, length: number): number {
  let bits = 0
  for (let bit = 0; bit < length; bit++) bits |= ((code >>> bit) & 1) << (length - 1 - bit)
  return bits
}
