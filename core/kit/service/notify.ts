import { spawn } from 'node:child_process'
import type { Logger } from '../base/logger.ts'
import { unixDatagrams } from './unix-datagram.ts'

/** Sends lines such as `READY=1` to the service manager (sd_notify(3)). Never throws. */
export type Notify = (...lines: string[]) => void

export interface NotifyOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly logger: Logger
}

/**
 * Node has no datagrams of UNIX sockets: they are sent through the C library, and where it cannot be called by the program
 * systemd-notify, whose messages need `NotifyAccess=all`.
 * @returns undefined: no service manager waits for messages of this process
 */
export async function openNotify({ env, logger }: NotifyOptions): Promise<Notify | undefined> {
  const socket = env.NOTIFY_SOCKET
  // An absolute path, or the name of an abstract socket. systemd knows others (vsock), for virtual machines.
  if (!socket || !/^[/@]/.test(socket)) return undefined
  const onFailure = (err: unknown) => logger.warn({ err, socket }, 'service manager not notified')
  const send = await unixDatagrams(socket).catch((err: unknown) => {
    logger.debug({ err }, 'the C library cannot be called; systemd-notify is used')
    return undefined
  })
  if (!send) return (...lines) => void spawn('systemd-notify', lines, { stdio: 'ignore' }).on('error', onFailure)
  return (...lines) => {
    try {
      send(Buffer.from(lines.join('\n')))
    } catch (err) {
      onFailure(err)
    }
  }
}
