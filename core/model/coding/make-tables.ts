import { type CodingTables, maxCodeBits, symbolCount } from '../../wire/protocol/state-coding.ts'
import type { States } from '../../wire/protocol/states.ts'

const maxTables = 16
/** A table is for at least so many channels: of fewer, a sample says too little. */
const minChannels = 8
const passes = 10
/** A sequence shorter than this has no rate of its own. */
const minRows = 32
/** What each row may need beyond the longest rows of the sample, as a share of fp16. */
const rateMargin = 0.01
/** What a frame may need beyond its rows' rate, as a multiple of the most that any rows of the sample needed. */
const slackMargin = 2
/** Least slack, in bits per channel: the rows of a small sample may all be alike. */
const minSlack = 1
/** See RowCoder: the decoder reads up to 3 bytes behind the last code, both halves end with a byte, and 2 raw bits follow each code. */
const spareBits = 40
const upperBits = 2

/**
 * Tables for rows like these. Channels whose signs and exponents are distributed alike share a table.
 * @param sequences rows of one text each
 * @returns undefined where rows need as much as fp16
 */
export function makeTables(sequences: readonly States[]): CodingTables | undefined {
  const [{ width }] = sequences as [States]
  const counts = countSymbols(sequences, width)
  const tables = Math.max(1, Math.min(maxTables, Math.floor(width / minChannels)))
  let channels = initialTables(counts, tables)
  let lengths: number[][] = []
  for (let pass = 0; pass < passes; pass++) {
    lengths = [...new Set(channels)].map((table) =>
      codeLengths(sumOf(counts.filter((_, channel) => channels[channel] === table))),
    )
    channels = counts.map((own) => cheapest(own, lengths))
  }
  const sizes = sequences.map((states) => rowBitsOf(states, channels, lengths))
  const size = sizeOf(sizes, width)
  if (width + Math.ceil((size.rowBits + size.slackBits) / 8) >= 2 * width) return undefined
  return {
    channels: channels.map((table) => table.toString(16)).join(''),
    lengths: lengths.map((table) => table.map((length) => length.toString(16)).join('')),
    ...size,
  }
}

/** @returns [channels] of [64] */
function countSymbols(sequences: readonly States[], width: number): Float64Array[] {
  const counts = Array.from({ length: width }, () => new Float64Array(symbolCount))
  for (const { rows, half, wide } of sequences)
    for (let row = 0; row < rows; row++) {
      if (wide?.index.includes(row)) continue
      for (const [channel, own] of counts.entries()) own[half[row * width + channel]! >>> 10]! += 1
    }
  return counts
}

/** Channels in the order of their mean symbol, in equal groups. */
function initialTables(counts: readonly Float64Array[], tables: number): number[] {
  const means = counts.map((own) => own.reduce((sum, count, symbol) => sum + count * symbol, 0))
  const order = [...means.keys()].sort((a, b) => means[a]! - means[b]!)
  const channels = new Array<number>(order.length)
  for (const [place, channel] of order.entries()) channels[channel] = Math.floor((place * tables) / order.length)
  return channels
}

/** Every symbol is counted once more: all of them must have a code. */
function sumOf(counts: readonly Float64Array[]): number[] {
  return Array.from({ length: symbolCount }, (_, symbol) => counts.reduce((sum, own) => sum + own[symbol]!, 1))
}

const costOf = (counts: Float64Array, lengths: readonly number[]) =>
  counts.reduce((sum, count, symbol) => sum + count * lengths[symbol]!, 0)

function cheapest(counts: Float64Array, tables: readonly (readonly number[])[]): number {
  const costs = tables.map((lengths) => costOf(counts, lengths))
  return costs.indexOf(Math.min(...costs))
}

/**
 * Lengths of the shortest code whose words have at most `maxCodeBits` bits, by package-merge: Larmore and Hirschberg 1990, "A fast
 * algorithm for optimal length-limited Huffman codes".
 * @param weights [64], > 0
 */
export function codeLengths(weights: readonly number[]): number[] {
  interface Package {
    readonly weight: number
    readonly symbols: readonly number[]
  }
  const byWeight = (a: Package, b: Package) => a.weight - b.weight
  const single = weights.map((weight, symbol) => ({ weight, symbols: [symbol] }))
  let packages: Package[] = []
  for (let bit = 0; bit < maxCodeBits; bit++) {
    const merged = [...single, ...packages].sort(byWeight)
    packages = Array.from({ length: merged.length >>> 1 }, (_, pair) => {
      const [a, b] = [merged[2 * pair]!, merged[2 * pair + 1]!]
      return { weight: a.weight + b.weight, symbols: [...a.symbols, ...b.symbols] }
    })
  }
  const lengths = weights.map(() => 0)
  for (const { symbols } of packages.slice(0, weights.length - 1)) for (const symbol of symbols) lengths[symbol]! += 1
  return lengths
}

/** Bits of each row of a sequence, without the raw bytes. */
function rowBitsOf({ rows, width, half, wide }: States, channels: readonly number[], lengths: readonly (readonly number[])[]) {
  return Array.from({ length: rows }, (_, row) => {
    if (wide?.index.includes(row)) return 0
    return channels.reduce((sum, table, channel) => sum + upperBits + lengths[table]![half[row * width + channel]! >>> 10]!, 0)
  })
}

/** The rate of the longest text, and the most that any rows beside each other needed beyond it, both with a margin. */
function sizeOf(sequences: readonly (readonly number[])[], width: number): { rowBits: number; slackBits: number } {
  const long = sequences.filter((rows) => rows.length >= minRows)
  const means = (long.length > 0 ? long : sequences).map((rows) => rows.reduce((sum, bits) => sum + bits, 0) / rows.length)
  const rowBits = Math.ceil(Math.max(...means) + rateMargin * 16 * width)
  let most = 0
  for (const rows of sequences) {
    let beyond = 0
    for (const bits of rows) {
      beyond = Math.max(0, beyond + bits - rowBits)
      most = Math.max(most, beyond)
    }
  }
  const slackBits = Math.ceil(Math.max(slackMargin * most, minSlack * width)) + spareBits
  // A single row must still be shorter than as fp16; the first rows of prompts may need nearly that.
  const mostBits = 8 * (width - 1) - rowBits
  return { rowBits, slackBits: most + spareBits <= mostBits ? Math.min(slackBits, mostBits) : slackBits }
}
