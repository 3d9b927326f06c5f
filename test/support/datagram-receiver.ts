import { rmSync } from 'node:fs'
import koffi from 'koffi'
import { enlargeStacks } from '../../core/kit/base/native-stacks.ts'
import { unixAddress } from '../../core/kit/service/unix-datagram.ts'

const dontWait = 0x40

/** A UNIX datagram socket, as a service manager has one; Node itself has none. */
export function receiveDatagrams(socket: string) {
  enlargeStacks(koffi)
  const libc = koffi.load(null)
  const fd = libc.func('socket', 'int', ['int', 'int', 'int'])(1, 2, 0)
  const address = unixAddress(socket)
  const bound = libc.func('bind', 'int', ['int', 'void*', 'uint32_t'])(fd, address, address.length)
  if (bound !== 0) throw new Error(`${socket} cannot be bound: errno ${koffi.errno()}`)
  const receive = libc.func('recv', 'intptr_t', ['int', 'void*', 'size_t', 'int'])
  return {
    /** What has arrived since the last call. */
    received(): string[] {
      const texts: string[] = []
      const buffer = Buffer.alloc(4_096)
      for (;;) {
        const bytes = Number(receive(fd, buffer, buffer.length, dontWait))
        if (bytes < 0) return texts
        texts.push(buffer.toString('utf8', 0, bytes))
      }
    },
    close() {
      libc.func('close', 'int', ['int'])(fd)
      if (!socket.startsWith('@')) rmSync(socket, { force: true })
    },
  }
}
