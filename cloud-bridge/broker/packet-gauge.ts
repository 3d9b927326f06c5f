/** The fixed header of an MQTT packet (MQTT 3.1.1 §2.2). */
export interface PacketHeader {
  /** As in the header's first four bits. */
  readonly type: number
  /** Announced size of what follows the header. Infinity: the length is malformed. */
  readonly bodyBytes: number
}

/** Packet types (MQTT 3.1.1 §2.2.1). */
export const packetTypes = { publish: 3, subscribe: 8, unsubscribe: 10 } as const

/** Finds the packets of one MQTT byte stream, before their bodies have been received. */
export class PacketGauge {
  /** Bytes of the current packet's body that are still to come. */
  #bodyBytes = 0
  /** The header so far; undefined within a body. */
  #header: { readonly type: number; length: number; shift: number } | undefined

  /**
   * Follows `chunk` from the index `from` to the end of the current packet, or of the chunk.
   * @returns where that is, and the packet's header if it was completed on the way
   */
  advance(chunk: Uint8Array, from: number): { readonly end: number; readonly packet: PacketHeader | undefined } {
    let at = from
    let packet: PacketHeader | undefined
    while (this.#bodyBytes === 0 && packet === undefined && at < chunk.length) {
      packet = this.#readHeader(chunk[at++]!)
      if (packet?.bodyBytes === 0) return { end: at, packet }
      this.#bodyBytes = packet?.bodyBytes ?? 0
    }
    const skipped = Math.min(this.#bodyBytes, chunk.length - at)
    this.#bodyBytes -= skipped
    return { end: at + skipped, packet }
  }

  /** @returns the header that this byte completes */
  #readHeader(byte: number): PacketHeader | undefined {
    if (!this.#header) {
      this.#header = { type: byte >> 4, length: 0, shift: 0 }
      return undefined
    }
    const { type } = this.#header
    this.#header.length += (byte & 0x7f) * 2 ** this.#header.shift
    this.#header.shift += 7
    const isComplete = byte < 0x80
    if (!isComplete && this.#header.shift < 28) return undefined
    const bodyBytes = isComplete ? this.#header.length : Number.POSITIVE_INFINITY
    this.#header = undefined
    return { type, bodyBytes }
  }
}
