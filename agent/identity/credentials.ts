import type { TLSSocket } from 'node:tls'
import type { Clock } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import { connectPinned } from '../../core/base/pinned-socket.ts'
import type { GrantReply } from '../../core/protocol/identity.ts'
import { type Enrolment, openSession } from './enrolment.ts'
import type { DeviceKey } from './key-file.ts'

/** Of a session's life, when it is renewed. */
const renewAt = 2 / 3
/** After a renewal that failed. */
const retryMs = 10_000

/** This device's sessions at one bridge. */
export interface Credentials {
  /**
   * A token for one more connection. What is connected stays so for as long as the session is renewed, which goes on until
   * `close`.
   * @throws BrimError NOT_AUTHORIZED, DEVICE_CLONED, IDENTITY_INVALID, BRIDGE_UNREACHABLE
   */
  token(signal: AbortSignal): Promise<string>
  /** The same for the control plane: its broker may want another password. @throws as `token` does */
  mqttPassword(signal: AbortSignal): Promise<string>
  /**
   * A connection to this bridge for a URL of TLS, where its key is pinned; undefined where the usual way will do.
   * @throws BrimError IDENTITY_INVALID, BRIDGE_UNREACHABLE
   */
  dial(url: string, signal: AbortSignal): Promise<TLSSocket | undefined>
  close(): void
}

export interface CredentialsOptions {
  readonly enrolment: Enrolment
  readonly key: DeviceKey
  readonly clock: Clock
  readonly logger: Logger
}

export function createCredentials({ enrolment, key, clock, logger }: CredentialsOptions): Credentials {
  const closing = new AbortController()
  /** Of the renewals that go on. */
  let renewing = new AbortController()

  async function renew(validForS: number, stop: AbortSignal): Promise<void> {
    let waitMs = validForS * 1_000 * renewAt
    for (;;) {
      const slept = await clock.sleep(waitMs, stop).then(
        () => true,
        () => false,
      )
      if (!slept) return
      try {
        const session = await openSession(enrolment, key, stop)
        waitMs = session.validForS * 1_000 * renewAt
      } catch (err) {
        if (stop.aborted) return
        logger.warn({ err }, 'session not renewed')
        waitMs = retryMs
      }
    }
  }

  async function open(signal: AbortSignal): Promise<GrantReply> {
    const session = await openSession(enrolment, key, AbortSignal.any([signal, closing.signal]))
    renewing.abort()
    renewing = new AbortController()
    void renew(session.validForS, AbortSignal.any([renewing.signal, closing.signal]))
    return session
  }

  return {
    token: async (signal) => (await open(signal)).token,
    async mqttPassword(signal) {
      const { token, mqttPassword = token } = await open(signal)
      return mqttPassword
    },
    async dial(url, signal) {
      const { pin, foreignBroker } = enrolment
      const isBridges = /^(?:wss|https):/.test(url) || (/^mqtts:/.test(url) && !foreignBroker)
      return pin !== undefined && isBridges ? connectPinned(url, pin, signal) : undefined
    },
    close: () => closing.abort(),
  }
}
