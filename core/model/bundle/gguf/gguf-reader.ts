import { readSync } from 'node:fs'
import { BrimError } from '../../../kit/base/errors.ts'
import { isLfsPointer, lfsHint, lfsProblem } from '../../../kit/base/lfs-pointer.ts'

/** Bytes of the file that are in memory at once. */
const windowBytes = 1 << 20
/** Of metadata and tensor list together; a vocabulary of 256,000 tokens with merges takes 12 MB. */
const maxHeaderBytes = 2 ** 28
export const maxNameBytes = 65_535

export function invalidGguf(file: string, what: string, hint?: string): BrimError {
  return new BrimError('GGUF_INVALID', `${file} ${what}`, {
    hint: hint ?? 'the file is damaged or is not in the GGUF format: copy or download it again',
  })
}

/**
 * Reads the little-endian numbers and strings of a GGUF header in order. Lengths and counts are compared with what is left of
 * the file before anything is reserved for them.
 */
export class GgufReader {
  readonly file: string
  readonly fileBytes: number
  readonly #fd: number
  #window = Buffer.alloc(0)
  #windowAt = 0
  #at = 0

  constructor(fd: number, file: string, fileBytes: number) {
    this.#fd = fd
    this.file = file
    this.fileBytes = fileBytes
  }

  /** From the start of the file. */
  get position(): number {
    return this.#at
  }

  /** @throws BrimError GGUF_INVALID unless it is a GGUF file of version 2 or 3 */
  readMagic(): void {
    if (this.fileBytes < 24) throw invalidGguf(this.file, `has ${this.fileBytes} bytes, too few for a header`)
    const start = Buffer.from(this.#take(8, 'the header'))
    if (isLfsPointer(start)) throw new BrimError('GGUF_INVALID', `${this.file} ${lfsProblem}`, { hint: lfsHint })
    if (start.toString('latin1', 0, 4) !== 'GGUF') throw invalidGguf(this.file, 'does not begin with "GGUF"')
    const version = start.readUInt32LE(4)
    if (version === 2 || version === 3) return
    const isBigEndian = [2, 3].includes(start.readUInt32BE(4))
    const problem = isBigEndian ? 'is big-endian; Brim reads little-endian files' : `has version ${version}; Brim reads 2 and 3`
    throw invalidGguf(this.file, problem, 'convert the model again with a recent llama.cpp')
  }

  /** @param what names the field in errors */
  uint(bytes: 1 | 2 | 4, what: string): number {
    return this.#take(bytes, what).readUIntLE(0, bytes)
  }

  int(bytes: 1 | 2 | 4, what: string): number {
    return this.#take(bytes, what).readIntLE(0, bytes)
  }

  float(bytes: 4 | 8, what: string): number {
    const data = this.#take(bytes, what)
    return bytes === 4 ? data.readFloatLE(0) : data.readDoubleLE(0)
  }

  /** @throws BrimError GGUF_INVALID beyond 2^53 */
  long(what: string, signed = false): number {
    const data = this.#take(8, what)
    const value = signed ? data.readBigInt64LE(0) : data.readBigUInt64LE(0)
    if (!Number.isSafeInteger(Number(value))) throw invalidGguf(this.file, `gives ${what} the value ${value}`)
    return Number(value)
  }

  /** @param smallest bytes that each of the counted things has at least. @throws BrimError GGUF_INVALID if the file cannot hold them */
  count(what: string, smallest: number): number {
    const count = this.long(what)
    if (count * smallest > this.fileBytes - this.#at)
      throw invalidGguf(this.file, `claims ${count} ${what}, but has only ${this.fileBytes - this.#at} bytes left`)
    return count
  }

  text(what: string, maxBytes = maxHeaderBytes): string {
    const bytes = this.long(`the length of ${what}`)
    if (bytes > maxBytes) throw invalidGguf(this.file, `gives ${what} ${bytes} bytes`)
    return this.#take(bytes, what).toString('utf8')
  }

  #take(bytes: number, what: string): Buffer {
    const end = this.#at + bytes
    if (end > this.fileBytes)
      throw invalidGguf(this.file, `is cut short: ${what} ends at byte ${end}, the file at ${this.fileBytes}`)
    if (end > maxHeaderBytes) throw invalidGguf(this.file, `has a header of more than ${maxHeaderBytes} bytes`)
    if (end > this.#windowAt + this.#window.length) this.#fill(Math.max(bytes, windowBytes), what)
    const from = this.#at - this.#windowAt
    this.#at = end
    return this.#window.subarray(from, from + bytes)
  }

  #fill(wanted: number, what: string): void {
    const window = Buffer.alloc(Math.min(wanted, this.fileBytes - this.#at))
    for (let done = 0; done < window.length; ) {
      const read = readSync(this.#fd, window, done, window.length - done, this.#at + done)
      if (read === 0) throw invalidGguf(this.file, `became shorter while ${what} was read`)
      done += read
    }
    this.#window = window
    this.#windowAt = this.#at
  }
}
