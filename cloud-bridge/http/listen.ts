import type { AddressInfo, Server } from 'node:net'
import { BrimError } from '../../core/base/errors.ts'
import { isLoopback } from '../../core/base/loopback.ts'

export interface ListenOptions {
  readonly host: string
  /** 0: a free one. */
  readonly port: number
  /** What listens, and the flag that moves it elsewhere: for the messages. */
  readonly what: string
  readonly flag: string
  /** Whoever connects has to prove who they are. */
  readonly guarded?: boolean
}

/**
 * What asks nobody who they are cannot be reached from another machine.
 * @returns the port
 * @throws BrimError LISTEN_REFUSED, LISTEN_FAILED
 */
export async function listen(server: Server, { host, port, what, flag, guarded = false }: ListenOptions): Promise<number> {
  if (!guarded && !isLoopback(host))
    throw new BrimError('LISTEN_REFUSED', `the ${what} does not listen on ${host}: whoever connects is not authenticated`, {
      hint: 'use --host 127.0.0.1; from another machine, go through an SSH tunnel',
    })
  await new Promise<void>((resolve, reject) => {
    const failed = (cause: NodeJS.ErrnoException) => {
      const taken = cause.code === 'EADDRINUSE'
      reject(
        new BrimError('LISTEN_FAILED', `the ${what} cannot listen on ${host}:${port}${taken ? ': the port is in use' : ''}`, {
          cause,
          hint: taken ? `stop what uses it, or choose another with ${flag} (0: a free one)` : `choose another with ${flag}`,
        }),
      )
    }
    server.once('error', failed)
    server.listen(port, host, () => {
      server.off('error', failed)
      resolve()
    })
  })
  return (server.address() as AddressInfo).port
}

/** Where this process reaches what listens on all addresses. */
export const ownHost = (host: string) => (host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host)

/** IPv6 addresses stand in brackets in a URL. */
export const urlHost = (host: string) => (host.includes(':') ? `[${host}]` : host)
