import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import { connectPinned } from '../../core/base/pinned-socket.ts'
import { mayReceiveToken } from '../../core/policy/link/enrolled-bridge.ts'
import type { GrantReply } from '../../core/protocol/identity.ts'
import { dataPath } from '../../core/protocol/messages.ts'
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
  /** Origin of the bridge's HTTP. */
  readonly origin: string
  close(): void
}

export interface CredentialsOptions {
  readonly enrolment: Enrolment
  readonly key: DeviceKey
  /** URL of the data plane that the configuration names. */
  readonly dataUrl?: string | undefined
  readonly clock: Clock
  readonly logger: Logger
}

export function createCredentials({ enrolment, key, dataUrl, clock, logger }: CredentialsOptions): Credentials {
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
    bridge: enrolment.bridge,
    origin: new URL(enrolment.url).origin,
    dataUrl: dataUrl ?? new URL(dataPath, enrolment.url.replace(/^http/, 'ws')).href,
    async token(url, signal) {
      if (mayReceiveToken(url, enrolment.url, dataUrl)) return (await newGrant(signal)).token
      throw new BrimError('IDENTITY_INVALID', `the token of this device is not for ${new URL(url).origin}`, {
        hint: `it is for the bridge at ${enrolment.url}, where the device enrolled; --data-url names another address of it`,
      })
    },
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
