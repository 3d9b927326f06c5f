import koffi from 'koffi'
import type { Pointer } from './capi-library.ts'

/** Texts as C strings at fixed addresses, which hold as long as this object is referenced. */
export class CStrings {
  /** In the order of the texts. */
  readonly pointers: BigUint64Array
  /** Held because the pointers point into it. */
  readonly bytes: Uint8Array

  constructor(texts: readonly string[]) {
    this.bytes = new Uint8Array(Buffer.from(texts.map((text) => `${text}\0`).join(''), 'utf8'))
    let at = texts.length === 0 ? 0n : koffi.address(this.bytes)
    this.pointers = BigUint64Array.from(texts, (text) => {
      const start: Pointer = at
      at += BigInt(Buffer.byteLength(text) + 1)
      return start
    })
  }
}

/** Keeps its arguments referenced up to this call, so that the garbage collector cannot free them during a call of the library. */
export function keepAlive(..._kept: unknown[]): void {}
