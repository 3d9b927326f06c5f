/**
 * Bytes of one unfragmented WebSocket message on the socket: RFC 6455 §5.2 header (and mask, which only a client
 * sends) and payload.
 */
export function webSocketBytes(payloadBytes: number, masked: boolean): number {
  const lengthBytes = payloadBytes < 126 ? 0 : payloadBytes < 65_536 ? 2 : 8
  return 2 + lengthBytes + (masked ? 4 : 0) + payloadBytes
}
