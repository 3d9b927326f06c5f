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
}

/**
 * Until devices and people have identities, nothing of ours can be reached from another machine.
 * @returns the port
 * @throws BrimError LISTEN_REFUSED, LISTEN_FAILED
 */
export async function listen(server: Server, { host, port, what, flag }: ListenOptions): Promise<number> {
  if (!isLoopback(host))
    throw new BrimError('LISTEN_REFUSED', `the ${what} does not listen on ${host}: whoever connects is not authenticated yet`, {
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

/** IPv6 addresses stand in brackets in a URL. */
export const urlHost = (host: string) => (host.includes(':') ? `[${host}]` : host)
