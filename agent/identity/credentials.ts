import type { Clock } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import { connectPinned } from '../../core/base/pinned-socket.ts'
import type { GrantReply } from '../../core/protocol/identity.ts'
import type { LinkCredentials } from '../link/ports.ts'
import { type Enrolment, requestGrant } from './enrolment.ts'
import type { DeviceKey } from './key-file.ts'

/** A grant is renewed after this part of its validity. */
const renewAt = 2 / 3
/** Wait after a failed renewal. */
const retryMs = 10_000

/**
 * The device's grants at one bridge. A grant is renewed until `close`; the bridge closes the connections of a grant that is
 * not renewed.
 */
export interface Credentials extends LinkCredentials {
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
  /** Ends the renewal of the last grant. */
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
        const grant = await requestGrant(enrolment, key, stop)
        waitMs = grant.validForS * 1_000 * renewAt
      } catch (err) {
        if (stop.aborted) return
        logger.warn({ err }, 'grant not renewed, retrying')
        waitMs = retryMs
      }
    }
  }

  async function newGrant(signal: AbortSignal): Promise<GrantReply> {
    const grant = await requestGrant(enrolment, key, AbortSignal.any([signal, closing.signal]))
    renewing.abort()
    renewing = new AbortController()
    void renew(grant.validForS, AbortSignal.any([renewing.signal, closing.signal]))
    return grant
  }

  return {
    token: async (signal) => (await newGrant(signal)).token,
    async mqttPassword(signal) {
      const { token, mqttPassword = token } = await newGrant(signal)
      return mqttPassword
    },
    async dial(url, signal) {
      const { pin, foreignBroker } = enrolment
      const leadsToBridge = /^(?:wss|https):/.test(url) || (/^mqtts:/.test(url) && !foreignBroker)
      return pin !== undefined && leadsToBridge ? connectPinned(url, pin, signal) : undefined
    },
    close: () => closing.abort(),
  }
}
