import type { Socket } from 'node:net'
import koffi from 'koffi'
import { enlargeStacks } from '../../core/kit/base/native-stacks.ts'

/** Of Linux. */
const SOL_SOCKET = 1
const SO_SNDBUF = 7
const SO_LINGER = 13

/** What the kernel keeps for clients that do not read. */
export interface SendBuffer {
  /** @param bytes the kernel doubles it, for what it adds to each packet; by default it keeps up to 4 MB */
  limit(socket: Socket, bytes: number): void
  /** Closes the connection; otherwise the kernel would go on offering the client what it has not read, for minutes. */
  destroy(socket: Socket): void
}

/** Through the C library, because Node has no options for it. Where that cannot be called, the defaults of the system stay. */
export function openSendBuffer(): SendBuffer {
  const setsockopt = loadSetsockopt()
  const set = (socket: Socket, option: number, ...values: number[]) => {
    const fd = fdOf(socket)
    const value = Int32Array.from(values)
    if (fd !== undefined) setsockopt?.(fd, SOL_SOCKET, option, value, value.byteLength)
  }
  return {
    limit: (socket, bytes) => set(socket, SO_SNDBUF, bytes),
    destroy(socket) {
      // On, for 0 seconds.
      set(socket, SO_LINGER, 1, 0)
      socket.destroy()
    },
  }
}

/** Also of the socket below TLS; undefined: it has closed. Node has no public name for it. */
function fdOf(socket: Socket): number | undefined {
  const { _handle: handle } = socket as { _handle?: { readonly fd?: number } | null }
  return handle?.fd !== undefined && handle.fd >= 0 ? handle.fd : undefined
}

function loadSetsockopt(): ((...values: unknown[]) => number) | undefined {
  if (process.platform !== 'linux') return undefined
  try {
    enlargeStacks(koffi)
    return koffi.load(null).func('setsockopt', 'int', ['int', 'int', 'int', 'void*', 'uint32_t'])
  } catch {
    return undefined
  }
}
