import { once } from 'node:events'
import { createServer } from 'node:net'

/** Whether a program can listen on this port of 127.0.0.1 now. */
export async function portIsFree(port: number): Promise<boolean> {
  const server = createServer()
  try {
    const listening = once(server, 'listening')
    server.listen(port, '127.0.0.1')
    await listening
    return true
  } catch {
    return false
  } finally {
    server.close()
  }
}
