import { createHmac, randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { type OpenLimits, openStream, type StreamRequest } from '../../core/answer/upstream/open-stream.ts'
import type { Watchdog } from '../../core/answer/upstream/watchdog.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { KeptConnections } from '../../core/kit/base/kept-connections.ts'
import type { Credentials } from '../identity/credentials.ts'
import type { BridgeFailures } from './bridge-failures.ts'

/** HTTP of a bridge, and the device's proof for it. */
export interface BridgeHttp {
  readonly origin: string
  /** Absent: the device is not enrolled. */
  readonly credentials: Pick<Credentials, 'requestToken' | 'dial'> | undefined
  readonly connections: KeptConnections
}

/**
 * Opens a stream of OpenAI's API at the bridge, with a fresh token where the last one is refused.
 * @param bridge to ask now; undefined: its address is not known yet
 */
export function bridgeAsker(bridge: () => BridgeHttp | undefined, limits: OpenLimits, failures: BridgeFailures) {
  return async (asked: StreamRequest, watchdog: Watchdog, signal: AbortSignal): Promise<IncomingMessage> => {
    const at = bridge()
    if (!at)
      throw new BrimError('BRIDGE_UNREACHABLE', 'this device does not know the HTTP address of its bridge yet', {
        hint: 'is the bridge running, and this device connected to its broker?',
      })
    const { origin, credentials, connections } = at
    const url = `${origin}/v1`
    const post = (key: string | undefined) =>
      openStream({ url, key, dial: credentials?.dial, connections }, asked, limits, watchdog, failures, signal)
    const key = await credentials?.requestToken(url, signal)
    try {
      return await post(key)
    } catch (error) {
      const isRefused = key !== undefined && error instanceof BrimError && error.code === 'NOT_AUTHORIZED'
      if (!isRefused) throw error
      return post(await credentials?.requestToken(url, signal, key))
    }
  }
}

/** Names for this device's clients: the bridge keeps their cached prompts apart, without learning their identity. */
export function clientNames(): (client: string) => string {
  const salt = randomBytes(16)
  return (client) => createHmac('sha256', salt).update(client).digest('base64url')
}
