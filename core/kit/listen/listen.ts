import type { AddressInfo, Server } from 'node:net'
import { BrimError } from '../base/errors.ts'
import { isLoopback } from '../base/loopback.ts'

export interface ListenOptions {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  /** What listens, and the flag that changes its port: for the messages. */
  readonly what: string
  readonly flag: string
  /** Whether clients must prove their identity. */
  readonly authRequired?: boolean
}

/**
 * Connections that wait to be accepted, at most (the kernel may allow fewer: `net.core.somaxconn`). A turn of the event loop
 * accepts one. Of those beyond, the kernel drops the packets, and their clients begin again after seconds.
 */
const backlog = 4_096

/**
 * A server without authentication listens on loopback only.
 * @returns the port
 * @throws BrimError LISTEN_REFUSED, LISTEN_FAILED
 */
export async function listen(server: Server, { host, port, what, flag, authRequired = false }: ListenOptions): Promise<number> {
  if (!authRequired && !isLoopback(host))
    throw new BrimError('LISTEN_REFUSED', `the ${what} does not listen on ${host}: it has no authentication`, {
      hint: 'use --host 127.0.0.1; from another machine, go through an SSH tunnel',
    })
  await new Promise<void>((resolve, reject) => {
    const onError = (cause: NodeJS.ErrnoException) => {
      const inUse = cause.code === 'EADDRINUSE'
      reject(
        new BrimError('LISTEN_FAILED', `the ${what} cannot listen on ${host}:${port}${inUse ? ': the port is in use' : ''}`, {
          cause,
          hint: inUse
            ? `stop the program that uses it, or choose another port with ${flag} (0: any free port)`
            : `choose another port with ${flag}`,
        }),
      )
    }
    server.once('error', onError)
    server.listen({ port, host, backlog }, () => {
      server.off('error', onError)
      resolve()
    })
  })
  return (server.address() as AddressInfo).port
}

/** An IPv6 address in a URL has brackets. */
export const urlHost = (host: string) => (host.includes(':') ? `[${host}]` : host)
