import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/** Small messages go out at once: with Nagle's algorithm each would wait up to 40 ms for the other end's delayed ACK. */
export function sendAtOnce(stream: Duplex): void {
  if (stream instanceof Socket) stream.setNoDelay(true)
}
