import { createHash } from 'node:crypto'
import { z } from 'zod'

/**
 * How fp16 rows are coded without loss (wire fp16c): sign and exponent of each value, its upper 6 bits, have a Huffman code of
 * their own for each group of channels. The other 10 bits travel as they are: they are close to random.
 */
export const symbolCount = 64
/** Longest code. */
export const maxCodeBits = 11

const maxTables = 16
const maxChannels = 65_536

/** A code whose words fill the space of codes: every sequence of bits can be read. */
const isComplete = (lengths: string) =>
  [...lengths].reduce((sum, digit) => sum + 2 ** (maxCodeBits - Number.parseInt(digit, 16)), 0) === 2 ** maxCodeBits

/** What rows take on the wire: the same for all rows of one shape, so that lengths do not depend on what they hold. */
export interface CodedSize {
  readonly width: number
  /** Bits of a row, without the 8 raw ones of each value. */
  readonly rowBits: number
  /** Of a frame: what its rows may need beyond that. */
  readonly slackBits: number
}

export const CodingTables = z
  .object({
    /** For each channel a hexadecimal digit: the table of its codes. */
    channels: z
      .string()
      .max(maxChannels)
      .regex(/^[0-9a-f]+$/),
    /** For each table the lengths of the 64 codes, in hexadecimal. */
    lengths: z
      .array(
        z
          .string()
          .regex(/^[1-9ab]{64}$/)
          .refine(isComplete, 'a table is not a complete code'),
      )
      .min(1)
      .max(maxTables),
    rowBits: z.int().min(0),
    slackBits: z.int().min(0),
  })
  .refine(({ channels, lengths }) => [...channels].every((digit) => Number.parseInt(digit, 16) < lengths.length), {
    error: 'a channel has a table that does not exist',
  })
  .refine(
    ({ channels, rowBits, slackBits }) => codedBytes({ width: channels.length, rowBits, slackBits }, 1) < 2 * channels.length,
    {
      error: 'coded rows are not shorter than fp16',
    },
  )
export type CodingTables = z.infer<typeof CodingTables>

/** The tables of a split model: of what devices send, and of what they receive. */
export const StateCoding = z.object({ shallow: CodingTables, deep: CodingTables })
export type StateCoding = z.infer<typeof StateCoding>

/** Length of coded rows. @returns bytes; for a row always fewer than as fp16 */
export const codedBytes = ({ width, rowBits, slackBits }: CodedSize, rows: number): number =>
  rows === 0 ? 0 : rows * width + Math.ceil((rows * rowBits + slackBits) / 8)

/** Rows that this many bytes have room for. */
export const codedRows = ({ width, rowBits, slackBits }: CodedSize, bytes: number): number =>
  Math.max(0, Math.floor((8 * bytes - slackBits) / (8 * width + rowBits)))

/** Rows of a model whose tables are not known: as the demonstration LLM's at its cuts. */
export const typicalSize = (width: number): CodedSize => ({
  width,
  rowBits: Math.ceil(5.8 * width),
  slackBits: Math.ceil(1.6 * width),
})

/** By which two sides recognise that they have the same tables of the same model. */
export function codingId(modelId: string, { shallow, deep }: StateCoding): string {
  const fields = [shallow, deep].map(({ channels, lengths, rowBits, slackBits }) => [channels, lengths, rowBits, slackBits])
  return createHash('sha256')
    .update(JSON.stringify([modelId, ...fields]))
    .digest('hex')
}
