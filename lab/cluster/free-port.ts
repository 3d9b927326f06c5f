import { createServer } from 'node:net'
import { onLoopback } from './loopback-server.ts'

/** A free loopback port, for programs that cannot report the port that the system chose for them. */
export async function freePort(): Promise<number> {
  await using server = await onLoopback(createServer())
  return server.port
}
