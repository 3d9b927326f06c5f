import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { orAborted } from '../../core/kit/base/or-aborted.ts'
import { connectPinned } from '../../core/kit/base/pinned-socket.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import { mayReceiveToken } from '../../core/policy/link/enrolled-bridge.ts'
import type { GrantReply } from '../../core/wire/protocol/identity.ts'
import { dataPath } from '../../core/wire/protocol/messages.ts'
import { webSocketBroker } from '../../core/wire/protocol/mqtt-url.ts'
import type { LinkCredentials } from '../link/ports.ts'
import type { BridgeKey } from './bridge-key.ts'
import type { BridgePins } from './bridge-pins.ts'
import { type Enrolment, requestGrant, requestKeyRenewal } from './enrolment.ts'
import type { DeviceKey } from './key-file.ts'

type Renewals = Pick<GrantReply, 'validForS' | 'renewKeyInS'>

/** A grant is renewed after this part of its validity. */
const renewAt = 2 / 3
/** Wait after a failed renewal, and the least one after any: a bridge that asks for a new key at every grant wears no disk. */
const retryMs = 10_000

/**
 * The device's grants and its key at one bridge. Both are renewed until `close`; the bridge closes the connections of a grant
 * that is not renewed.
 */
export interface Credentials extends LinkCredentials {
  /** Origin of the bridge's HTTP. */
  readonly origin: string
  /**
   * A bearer token for a request to `url`, of the last grant while that is valid.
   * @param refused a token that the bridge no longer accepts: it may have been restarted
   * @throws as `token` does
   */
  requestToken(url: string, signal: AbortSignal, refused?: string): Promise<string>
  close(): void
}

export interface CredentialsOptions {
  readonly enrolment: Enrolment
  readonly key: BridgeKey
  /** The bridge's TLS keys; absent: that of the enrolment, for good. */
  readonly pins?: BridgePins
  /** URL of the data plane that the configuration names. */
  readonly dataUrl?: string | undefined
  readonly clock: Clock
  readonly logger: Logger
}

export function createCredentials(options: CredentialsOptions): Credentials {
  const { enrolment, key, dataUrl, clock, logger } = options
  const pins = options.pins ?? { accepted: [enrolment.pin ?? []].flat(), learn: () => false }
  /** The bridge does not know yet that this device accepts its next TLS key. */
  let hasLearned = false
  const pinned = () => ({ ...enrolment, pin: pins.accepted })
  const closing = new AbortController()
  /** Ends the renewal of the last grant. */
  let renewing = new AbortController()
  let held: { readonly token: string; readonly untilMs: number } | undefined
  /** A grant that is being asked for: many requests may need it at once. */
  let granting: Promise<GrantReply> | undefined

  /** A key that is due is renewed with the next grant. */
  const untilRenewalMs = ({ validForS, renewKeyInS = Number.POSITIVE_INFINITY }: Renewals) =>
    hasLearned ? retryMs : Math.min(validForS * renewAt, renewKeyInS) * 1_000

  function promote(next: DeviceKey): void {
    tryOrLog(logger, 'new device key not stored, trying again at its next renewal', () => key.promote(next))
  }

  async function grantByEitherKey(signal: AbortSignal): Promise<GrantReply> {
    const tried = key.current
    try {
      return hold(await requestGrant(pinned(), tried, signal))
    } catch (error) {
      // The bridge may have accepted the next key in a reply that was lost. Too many failures hide that from this network.
      const isRefused = error instanceof BrimError && (error.code === 'NOT_AUTHORIZED' || error.code === 'QUOTA_EXCEEDED')
      const other = key.current === tried ? key.next : key.current
      if (!isRefused || !other) throw error
      const grant = await requestGrant(pinned(), other, signal).catch(() => {
        throw error
      })
      promote(other)
      return hold(grant)
    }
  }

  function hold(grant: GrantReply): GrantReply {
    hasLearned = false
    if (grant.pins) tryOrLog(logger, 'next TLS key of the bridge not stored', () => learn(grant.pins ?? []))
    held = { token: grant.token, untilMs: clock.nowMs() + grant.validForS * renewAt * 1_000 }
    return grant
  }

  function learn(said: readonly string[]): void {
    hasLearned = pins.learn(said)
    if (hasLearned) logger.info({ bridge: enrolment.bridge, pins: pins.accepted }, 'TLS keys of the bridge changed')
  }

  async function renewKey(signal: AbortSignal): Promise<number | undefined> {
    const { current } = key
    const next = key.makeNext()
    const { renewKeyInS } = await requestKeyRenewal(pinned(), { current, next }, signal)
    promote(next)
    logger.info({ bridge: enrolment.bridge }, 'device key renewed')
    return renewKeyInS
  }

  /** A failure leaves the grant as it is: the key is valid for months, and is tried again with the next grant. */
  async function renewKeyIfDue(grant: GrantReply, signal: AbortSignal): Promise<Renewals> {
    if (grant.renewKeyInS !== 0) return grant
    try {
      return { ...grant, renewKeyInS: await renewKey(signal) }
    } catch (err) {
      if (!signal.aborted) logger.warn({ err }, 'device key not renewed, retrying')
      return { ...grant, renewKeyInS: undefined }
    }
  }

  async function renew(first: GrantReply, stop: AbortSignal): Promise<void> {
    let waitMs = untilRenewalMs(first)
    for (;;) {
      const slept = await clock.sleep(waitMs, stop).then(
        () => true,
        () => false,
      )
      if (!slept) return
      try {
        waitMs = Math.max(retryMs, untilRenewalMs(await renewKeyIfDue(await grantByEitherKey(stop), stop)))
      } catch (err) {
        if (stop.aborted) return
        logger.warn({ err }, 'grant not renewed, retrying')
        waitMs = retryMs
      }
    }
  }

  async function newGrant(signal: AbortSignal): Promise<GrantReply> {
    const grant = await grantByEitherKey(AbortSignal.any([signal, closing.signal]))
    renewing.abort()
    renewing = new AbortController()
    void renew(grant, AbortSignal.any([renewing.signal, closing.signal]))
    return grant
  }

  function requireOwn(url: string): void {
    if (mayReceiveToken(url, enrolment.url, dataUrl)) return
    throw new BrimError('IDENTITY_INVALID', `the token of this device is not for ${new URL(url).origin}`, {
      hint: `it is for the bridge at ${enrolment.url}, where the device enrolled; --data-url names another address of it`,
    })
  }

  return {
    bridge: enrolment.bridge,
    origin: new URL(enrolment.url).origin,
    dataUrl: dataUrl ?? new URL(dataPath, enrolment.url.replace(/^http/, 'ws')).href,
    webSocketBroker: enrolment.foreignBroker ? undefined : webSocketBroker(enrolment.url),
    async token(url, signal) {
      requireOwn(url)
      return (await newGrant(signal)).token
    },
    async requestToken(url, signal, refused) {
      requireOwn(url)
      if (held && held.token !== refused && clock.nowMs() < held.untilMs) return held.token
      granting ??= newGrant(closing.signal).finally(() => {
        granting = undefined
      })
      return (await orAborted(granting, signal, async () => {})).token
    },
    async mqttLogin(signal) {
      const { token, mqttPassword: password = token, mqttClientId: clientId, mqttQos } = await newGrant(signal)
      return { password, clientId, subscribeQos: mqttQos }
    },
    async dial(url, signal) {
      const { foreignBroker } = enrolment
      const leadsToBridge = /^(?:wss|https):/.test(url) || (/^mqtts:/.test(url) && !foreignBroker)
      return pins.accepted.length > 0 && leadsToBridge ? connectPinned(url, pins.accepted, signal) : undefined
    },
    close: () => closing.abort(),
  }
}
