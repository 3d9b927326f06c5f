import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/** Turns Nagle's algorithm off: it can hold back small messages for 40 ms, until the other end's delayed ACK. */
export function disableNagle(stream: Duplex): void {
  if (stream instanceof Socket) stream.setNoDelay(true)
}
