export interface WebSocketFrame {
  readonly isText: boolean
  readonly isBinary: boolean
  readonly payload: Buffer
}

const textOpcode = 1
const binaryOpcode = 2

/**
 * All frames in one direction of a recorded WebSocket connection, unmasked (RFC 6455 §5): clients XOR what they send, which
 * would hide it from a search.
 * @param bytes from the HTTP upgrade on
 */
export function webSocketFrames(bytes: Buffer): WebSocketFrame[] {
  const frames: WebSocketFrame[] = []
  let at = bytes.indexOf('\r\n\r\n') + 4
  if (at < 4) throw new Error('the recording has no HTTP upgrade')
  while (at + 2 <= bytes.length) {
    const masked = (bytes[at + 1]! & 0x80) !== 0
    const short = bytes[at + 1]! & 0x7f
    const lengthBytes = short < 126 ? 0 : short === 126 ? 2 : 8
    const length =
      lengthBytes === 0 ? short : lengthBytes === 2 ? bytes.readUInt16BE(at + 2) : Number(bytes.readBigUInt64BE(at + 2))
    const maskAt = at + 2 + lengthBytes
    const start = maskAt + (masked ? 4 : 0)
    const payload = Buffer.from(bytes.subarray(start, start + length))
    if (masked) for (let i = 0; i < payload.length; i++) payload[i]! ^= bytes[maskAt + (i % 4)]!
    const opcode = bytes[at]! & 0x0f
    frames.push({ isText: opcode === textOpcode, isBinary: opcode === binaryOpcode, payload })
    at = start + length
  }
  return frames
}

/** The payloads of all frames, concatenated. */
export const webSocketPayloads = (bytes: Buffer): Buffer => Buffer.concat(webSocketFrames(bytes).map(({ payload }) => payload))
