import { closeSync, fstatSync, readSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import { z } from 'zod'
import { nextSeed } from '../../core/kit/base/next-seed.ts'
import { openPlainFile } from '../../core/kit/base/private-file.ts'
import { pageRows } from '../../core/policy/serving/write-through.ts'
import { type PageOwner, pageKeyBytes } from './page-keys.ts'
import { fullValuesOf, type Page } from './slow-tier.ts'

/** The number is that of the format: files of another one are not read. */
const magic = Buffer.from('BRIMKV1\n')
/** Of a file: magic, uint32 length and checksum of a text in JSON, the text; filled to a multiple of this. */
const headUnit = 512
const textAt = magic.length + 8
/** Of a page, before its values: uint32 rows, uint32 checksum, key. */
const pageHeadBytes = 8 + pageKeyBytes
const noKey = '0'.repeat(2 * pageKeyBytes)

const Head = z.strictObject({
  model: z.string(),
  owner: z.string(),
  seed: z.int().min(0),
  pageBytes: z.int().min(pageHeadBytes + pageRows * Float32Array.BYTES_PER_ELEMENT),
})

/**
 * What is known of a file with the pages of one stream, each at a fixed place. Every page has a checksum, which begins with the
 * file's random number, so that no other file's or page's bytes pass for it. Mutable.
 */
export class KvFile {
  readonly path: string
  /** Undefined: no later stream finds its pages. */
  readonly of: PageOwner | undefined
  readonly seed: number
  /** Of each place, which may be empty; `noKey` where its page is not complete. */
  readonly #keys: string[]
  /** Of a full page; 0 before the first one. */
  #pageBytes: number
  #head: Buffer | undefined

  constructor(path: string, of?: PageOwner, seed = nextSeed(), pageBytes = 0, keys: readonly string[] = []) {
    this.path = path
    this.of = of && { model: of.model, owner: of.owner }
    this.seed = seed
    this.#pageBytes = pageBytes
    this.#keys = [...keys]
  }

  /** A file that an earlier process left, and how long ago it was used. Throws where it is none, or others may have read it. */
  static read(path: string, wallMs: number): { readonly file: KvFile; readonly ageMs: number } {
    const handle = openPlainFile(path)
    try {
      const { size, mode, mtimeMs } = fstatSync(handle)
      if ((mode & 0o077) !== 0 && process.platform !== 'win32') throw new Error(`${path} is readable by other users`)
      const start = readAt(handle, 0, textAt)
      if (!start.subarray(0, magic.length).equals(magic)) throw new Error(`${path} holds no KV of this format`)
      const text = readAt(handle, textAt, Math.min(start.readUInt32LE(magic.length), size))
      if (crc32(text) !== start.readUInt32LE(magic.length + 4)) throw new Error(`the checksum of ${path} is wrong`)
      const { model, owner, seed, pageBytes } = Head.parse(JSON.parse(text.toString()))
      const file = new KvFile(path, { model, owner }, seed, pageBytes)
      const places = Math.floor((size - file.head.length) / pageBytes)
      for (let at = 0; at < places; at++)
        file.#keys.push(readAt(handle, file.placeOf(at), pageHeadBytes).toString('hex', pageHeadBytes - pageKeyBytes))
      return { file, ageMs: Math.max(0, wallMs - mtimeMs) }
    } finally {
      closeSync(handle)
    }
  }

  /** The first pages as a file of their own. */
  copied(path: string, pages: number): KvFile {
    return new KvFile(path, this.of, this.seed, this.#pageBytes, this.#keys.slice(0, pages))
  }

  /** With places for so many pages. */
  get bytes(): number {
    return this.#keys.length === 0 ? 0 : this.placeOf(this.#keys.length)
  }

  get places(): number {
    return this.#keys.length
  }

  get pageBytes(): number {
    return this.#pageBytes
  }

  /** Keys of the complete pages from the first on. */
  get keys(): readonly string[] {
    const missing = this.#keys.indexOf(noKey)
    return missing < 0 ? this.#keys : this.#keys.slice(0, missing)
  }

  /** Before the pages; empty where no later stream finds them. */
  get head(): Buffer {
    if (this.#head && this.#pageBytes > 0) return this.#head
    const { of, seed } = this
    const text = Buffer.from(JSON.stringify({ ...of, seed, pageBytes: this.#pageBytes }))
    const head = Buffer.alloc(of ? Math.ceil((textAt + text.length) / headUnit) * headUnit : 0)
    if (of) {
      magic.copy(head)
      head.writeUInt32LE(text.length, magic.length)
      head.writeUInt32LE(crc32(text), magic.length + 4)
      text.copy(head, textAt)
    }
    this.#head = head
    return head
  }

  placeOf(at: number): number {
    return this.head.length + at * this.#pageBytes
  }

  /** The file gets places for so many pages. @param charge takes their bytes beyond those that it has @returns whether it did */
  grow(page: Page, pages: number, charge: (bytes: number) => boolean): boolean {
    if (this.#pageBytes === 0) {
      this.#pageBytes = pageHeadBytes + fullValuesOf(page) * Float32Array.BYTES_PER_ELEMENT
      this.#head = undefined
    }
    if (pages <= this.#keys.length) return true
    if (!charge(this.placeOf(pages) - this.bytes)) return false
    while (this.#keys.length < pages) this.#keys.push(noKey)
    return true
  }

  /** The page at this place is being replaced, or now has this key. */
  mark(at: number, key = noKey): void {
    this.#keys[at] = key
  }

  encode(at: number, { rows, values }: Page, key = noKey): readonly [Buffer, Float32Array] {
    const head = Buffer.alloc(pageHeadBytes)
    head.writeUInt32LE(rows)
    head.write(key, 8, 'hex')
    head.writeUInt32LE(this.#checksum(at, head, values), 4)
    return [head, values]
  }

  /** @param bytes of the page, as far as they could be read @throws Error where it is not as it was saved */
  decode(at: number, bytes: Uint8Array<ArrayBuffer>): Page {
    if (bytes.length < pageHeadBytes) throw new Error(`page ${at} is missing`)
    const { buffer, byteOffset } = bytes
    const head = Buffer.from(buffer, byteOffset, pageHeadBytes)
    const rows = head.readUInt32LE()
    const valueBytes = ((this.#pageBytes - pageHeadBytes) / pageRows) * rows
    if (!(rows > 0 && rows <= pageRows && pageHeadBytes + valueBytes <= bytes.length)) throw new Error(`page ${at} is incomplete`)
    const values = new Float32Array(buffer, byteOffset + pageHeadBytes, valueBytes / Float32Array.BYTES_PER_ELEMENT)
    if (head.readUInt32LE(4) !== this.#checksum(at, head, values)) throw new Error(`the checksum of page ${at} is wrong`)
    return { rows, values }
  }

  #checksum(at: number, head: Buffer, { buffer, byteOffset, byteLength }: Float32Array): number {
    const place = new Uint8Array(Uint32Array.of(this.seed, at, head.readUInt32LE()).buffer)
    return crc32(new Uint8Array(buffer, byteOffset, byteLength), crc32(head.subarray(8), crc32(place)))
  }
}

/** Fewer bytes where the file ends before. */
function readAt(handle: number, at: number, length: number): Buffer {
  const bytes = Buffer.alloc(length)
  return bytes.subarray(0, readSync(handle, bytes, 0, length, at))
}
