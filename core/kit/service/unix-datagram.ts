import { enlargeStacks } from '../base/native-stacks.ts'

/** Of Linux, the only system with systemd. */
const AF_UNIX = 1
const SOCK_DGRAM = 2
const SOCK_CLOEXEC = 0o2000000
const MSG_DONTWAIT = 0x40
const MSG_NOSIGNAL = 0x4000
/** sockaddr_un: the family and a path of at most 108 bytes. */
const maxPathBytes = 108

/** sockaddr_un(7) of a path, or of the name of an abstract socket, which begins with `@`. @throws RangeError */
export function unixAddress(socket: string): Uint8Array {
  const name = Buffer.from(socket)
  if (name.length >= maxPathBytes)
    throw new RangeError(`the socket ${socket} has ${name.length} bytes; the limit is ${maxPathBytes - 1}`)
  const isAbstract = socket.startsWith('@')
  if (isAbstract) name[0] = 0
  // An abstract name is as long as the address says; a path ends with a zero byte.
  const address = Buffer.alloc(2 + name.length + (isAbstract ? 0 : 1))
  address.writeUInt16LE(AF_UNIX)
  name.copy(address, 2)
  return address
}

/**
 * Datagrams to a UNIX socket, through the C library of this process.
 * @returns sends one; throws if the receiver is gone or its queue is full
 * @throws if the C library cannot be called
 */
export async function unixDatagrams(to: string): Promise<(datagram: Uint8Array) => void> {
  if (process.platform !== 'linux') throw new Error('only Linux has service managers that wait for datagrams')
  const { default: koffi } = await import('koffi')
  enlargeStacks(koffi)
  const libc = koffi.load(null)
  const openSocket = libc.func('socket', 'int', ['int', 'int', 'int'])
  const close = libc.func('close', 'int', ['int'])
  const sendTo = libc.func('sendto', 'intptr_t', ['int', 'void*', 'size_t', 'int', 'void*', 'uint32_t'])
  const address = unixAddress(to)
  return (datagram) => {
    // One socket per message: a service manager that restarts binds its own anew.
    const fd = openSocket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)
    if (fd < 0) throw new Error(`no socket: errno ${koffi.errno()}`)
    try {
      const sent = sendTo(fd, datagram, datagram.length, MSG_DONTWAIT | MSG_NOSIGNAL, address, address.length)
      if (sent < 0) throw new Error(`a datagram to ${to} was not sent: errno ${koffi.errno()}`)
    } finally {
      close(fd)
    }
  }
}
