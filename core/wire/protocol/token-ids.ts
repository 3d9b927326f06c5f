/**
 * Token ids as they travel between endpoints of one vocabulary (DiSCo §4.3): each in as many bits as the vocabulary needs, the
 * highest bit first, as base64. The last byte is filled up with zeros.
 */

/** Bits of one id, at least 8: so the filling of the last byte is never an id. @param vocab ids below it */
export const bitsPerId = (vocab: number): number => Math.max(8, Math.ceil(Math.log2(vocab)))

/** @param ids below `vocab` */
export function packIds(ids: readonly number[], vocab: number): string {
  const bits = bitsPerId(vocab)
  const bytes = Buffer.alloc(Math.ceil((ids.length * bits) / 8))
  let held = 0
  let heldBits = 0
  let at = 0
  for (const id of ids) {
    // At most 7 + 24 bits: below 2^31.
    held = (held << bits) | id
    heldBits += bits
    for (; heldBits >= 8; at++) {
      heldBits -= 8
      bytes[at] = held >>> heldBits
      held &= (1 << heldBits) - 1
    }
  }
  if (heldBits > 0) bytes[at] = held << (8 - heldBits)
  return bytes.toString('base64')
}

/** @returns undefined for what `packIds` does not make */
export function unpackIds(packed: string, vocab: number): number[] | undefined {
  const bytes = Buffer.from(packed, 'base64')
  if (bytes.byteLength === 0 || bytes.toString('base64') !== packed) return undefined
  const bits = bitsPerId(vocab)
  const ids: number[] = []
  let held = 0
  let heldBits = 0
  for (const byte of bytes) {
    held = (held << 8) | byte
    heldBits += 8
    if (heldBits < bits) continue
    heldBits -= bits
    const id = held >>> heldBits
    if (id >= vocab) return undefined
    ids.push(id)
    held &= (1 << heldBits) - 1
  }
  return held === 0 && heldBits < 8 ? ids : undefined
}
