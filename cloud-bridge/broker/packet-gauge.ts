/**
 * Follows the fixed headers of one MQTT byte stream (MQTT 3.1.1 §2.2) and reports a packet that announces more than `maxBytes`,
 * before its body has been received.
 */
export class PacketGauge {
  readonly #maxBytes: number
  /** Bytes of the current packet's body that are still to come. */
  #bodyBytes = 0
  /** The remaining-length field so far; undefined between packets and within a body. */
  #length: { value: number; shift: number } | undefined

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** @returns the announced size of a packet that is too large (Infinity: its length is malformed), else undefined */
  feed(chunk: Uint8Array): number | undefined {
    let at = 0
    while (at < chunk.length) {
      if (this.#bodyBytes > 0) {
        const skipped = Math.min(this.#bodyBytes, chunk.length - at)
        this.#bodyBytes -= skipped
        at += skipped
      } else if (!this.#length) {
        this.#length = { value: 0, shift: 0 }
        at += 1
      } else {
        const byte = chunk[at++]!
        this.#length.value += (byte & 0x7f) * 2 ** this.#length.shift
        this.#length.shift += 7
        if (byte >= 0x80) {
          if (this.#length.shift >= 28) return Number.POSITIVE_INFINITY
          continue
        }
        if (this.#length.value > this.#maxBytes) return this.#length.value
        this.#bodyBytes = this.#length.value
        this.#length = undefined
      }
    }
    return undefined
  }
}
