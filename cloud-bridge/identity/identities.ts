import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import { networkOf } from '../../core/kit/listen/network.ts'
import type { KeyValidity } from '../../core/policy/identity/key-validity.ts'
import { CountWindow } from '../../core/policy/quota/count-window.ts'
import {
  EnrolReply,
  type EnrolRequest,
  type GrantReply,
  type GrantRequest,
  type MqttLogin,
  type NonceReply,
  type RenewKeyReply,
  type RenewKeyRequest,
  type Signed,
  signedBytes,
} from '../../core/wire/protocol/identity.ts'
import { openDeviceKey } from './device-key.ts'
import { type Grants, grantMs } from './grants.ts'
import { Nonces, nonceLifetimeMs } from './nonces.ts'
import type { Refused } from './rules.ts'
import type { IdentityStore } from './store.ts'

/** How often expired grants, and revocations by another process, are looked up. */
const checkMs = 1_000
const failureWindowMs = 60_000
/** Networks and tokens whose failures are counted. */
const maxCounted = 10_000

export interface IdentitiesOptions {
  readonly store: Pick<IdentityStore, 'device' | 'enrol' | 'grant' | 'renewKey' | 'bySecret' | 'setDevicePins'>
  readonly grants: Grants
  readonly bridge: string
  readonly fleet: string
  /** Whether the first enrolment makes proof of identity required. */
  readonly authRequiredOnceEnrolled: boolean
  /** The first enrolment has just made it required. */
  readonly onAuthRequired?: () => void
  /** Why no device can enrol here, if so. */
  readonly refusal?: BrimError | undefined
  /** Of device keys. */
  readonly keys: KeyValidity
  /** TLS keys that the bridge announces to devices, the present one first; absent: no TLS. */
  readonly tlsPins?: (() => string[]) | undefined
  /** Failed attempts of one network per minute; more are neither examined further nor audited. */
  readonly failedProofsPerMinute: number
  /** Where devices find the control plane. */
  readonly controlPlane: Pick<EnrolReply, 'mqttPort' | 'mqttPath' | 'mqttTls' | 'mqttUrl' | 'mqttUrls'>
  /** A device has enrolled with a token that has these labels. */
  readonly onEnrolled?: (device: string, labels: Readonly<Record<string, string>>) => void
  /** A grant begins. @returns the device's login at the control plane; undefined: its access token is the password */
  readonly onGrant?: (device: string) => Promise<MqttLogin | undefined>
  /** A grant has ended, by expiry, revocation or another key: the connections of the device must end. */
  readonly onGrantEnd: (device: string) => void
  readonly clock: Clock
  readonly logger: Logger
}

export interface Identities {
  issueNonce(): NonceReply
  /** @throws BrimError NOT_AUTHORIZED, ENROLL_REFUSED, DEVICE_CLONED, QUOTA_EXCEEDED */
  enrol(request: EnrolRequest, from: string): Promise<EnrolReply>
  /** Begins or renews the device's grant. @throws BrimError NOT_AUTHORIZED, DEVICE_CLONED, BROKER_UNREACHABLE, QUOTA_EXCEEDED */
  grantAccess(request: GrantRequest, from: string): Promise<GrantReply>
  /** Replaces the device's key by another. @throws as `grantAccess` does */
  renewKey(request: RenewKeyRequest, from: string): Promise<RenewKeyReply>
  close(): Promise<void>
}

/** Public key, and its signature of the request. */
type Proof = readonly [publicKey: string, signature: string]

/** Verifies what devices sign: enrols them, begins and renews their grants, and ends grants that are no longer valid. */
export function createIdentities(options: IdentitiesOptions): Identities {
  const { store, grants, bridge, fleet, keys, clock, logger } = options
  const nonces = new Nonces(clock)
  const failures = new CountWindow({ windowMs: failureWindowMs, max: options.failedProofsPerMinute, maxKeys: maxCounted })

  /** Whether all the keys have signed this; then its nonce is spent. */
  function isProven(signed: Omit<Signed, 'bridge' | 'fleet'>, ...proofs: readonly Proof[]): boolean {
    const { nonce } = signed
    if (!nonces.isGood(nonce)) return false
    const bytes = signedBytes({ ...signed, bridge, fleet })
    const isValid = proofs.every(([publicKey, signature]) => openDeviceKey(publicKey)?.hasSigned(bytes, signature) === true)
    if (isValid) nonces.spend(nonce)
    return isValid
  }

  function enrol(request: EnrolRequest, from: string): EnrolReply {
    const { device, nonce, hardware, publicKey, signature } = request
    if (!isProven({ purpose: 'enroll', nonce, device, hardware }, [publicKey, signature])) throw unproven(device)
    if (options.refusal) throw options.refusal
    const result = store.enrol(request, from)
    if (result.kind === 'refused') throw refusal(result)
    const { group, status } = result.device
    logger.info({ device, group, status }, 'device enrolled')
    if (!grants.authRequired && options.authRequiredOnceEnrolled) {
      grants.requireAuth()
      options.onAuthRequired?.()
      logger.info('first device enrolled: clients must now prove their identity')
    }
    const { labels = {} } = store.bySecret(request.token) ?? {}
    if (Object.keys(labels).length > 0) options.onEnrolled?.(device, labels)
    return EnrolReply.parse({ v: 1, group, status, ...options.controlPlane })
  }

  async function grantAccess(request: GrantRequest, from: string): Promise<GrantReply> {
    const { device, nonce, hardware, signature } = request
    const known = store.device(device)
    // A wrong key and an unknown name get the same response, so that it reveals no names.
    if (!known || !isProven({ purpose: 'session', nonce, device, hardware }, [known.publicKey, signature])) throw unproven(device)
    const result = store.grant(request, keys, from)
    if (result.kind === 'refused') throw new ProvenButRefused(result.code, result.message, result)
    const { publicKey } = known
    // Another key is another device under the same name: connections of the one before end.
    if (grants.get(device)?.publicKey !== publicKey) end(device)
    const grant = grants.get(device) ?? begin(device, publicKey)
    const token = grants.renew(device, grant)
    const login = await grant.mqttLogin.catch((cause: unknown) => {
      if (grants.get(device) === grant) end(device)
      throw new NotAdmitted(cause)
    })
    if (request.pins) store.setDevicePins(device, request.pins)
    const pins = options.tlsPins?.()
    const mqtt = { mqttPassword: login?.password, mqttClientId: login?.clientId, mqttQos: login?.subscribeQos }
    return { v: 1, token, validForS: grantMs / 1_000, ...mqtt, renewKeyInS: secondsOf(result.renewKeyInMs), pins }
  }

  function renewKey(request: RenewKeyRequest, from: string): RenewKeyReply {
    const { device, nonce, hardware, signature, publicKey: newKey, newSignature } = request
    const former = store.device(device)?.publicKey
    const signed = { purpose: 'renew-key', nonce, device, hardware, newKey } as const
    if (former === undefined || !isProven(signed, [former, signature], [newKey, newSignature])) throw unproven(device)
    const result = store.renewKey(request, keys, from)
    if (result.kind === 'refused') throw new ProvenButRefused(result.code, result.message, result)
    grants.replaceKey(device, former, newKey)
    logger.info({ device }, 'key of the device replaced')
    return { v: 1, renewKeyInS: secondsOf(result.renewKeyInMs) }
  }

  function begin(device: string, publicKey: string) {
    const login = Promise.resolve(options.onGrant?.(device))
    // A rejection is handled where the login is awaited.
    login.catch(() => {})
    return grants.begin(device, publicKey, login)
  }

  function end(device: string): void {
    if (grants.end(device)) options.onGrantEnd(device)
  }

  /** Failures are counted by network, which many devices may share. A request with a real token counts for that token alone. */
  async function limitedEnrol(request: EnrolRequest, from: string): Promise<EnrolReply> {
    const counted = `${store.bySecret(request.token)?.id ?? 'unknown token'} ${networkOf(from)}`
    if (failures.isFull(counted, clock.nowMs())) throw tooManyFailures()
    try {
      return enrol(request, from)
    } catch (error) {
      failures.add(counted, clock.nowMs())
      throw error
    }
  }

  /** A valid proof succeeds even after too many failures from its network. */
  async function limited<T>(from: string, prove: () => T | Promise<T>): Promise<T> {
    const counted = `grant ${networkOf(from)}`
    try {
      return await prove()
    } catch (error) {
      // A device that has proven its key retries often: that must not count against others of its network.
      if (error instanceof ProvenButRefused || error instanceof NotAdmitted) throw error
      if (failures.isFull(counted, clock.nowMs())) throw tooManyFailures()
      failures.add(counted, clock.nowMs())
      throw error
    }
  }

  function endInvalid(): void {
    for (const { device, revoked } of grants.invalid()) {
      logger.info({ device, revoked }, 'grant of the device ended')
      end(device)
    }
  }

  return {
    issueNonce: () => ({ v: 1, nonce: nonces.issue(), bridge, fleet, validForS: nonceLifetimeMs / 1_000 }),
    enrol: limitedEnrol,
    grantAccess: (request, from) => limited(from, () => grantAccess(request, from)),
    renewKey: (request, from) => limited(from, () => renewKey(request, from)),
    close: repeatEvery(clock, checkMs, () => tryOrLog(logger, 'revoked devices not read', endInvalid)),
  }
}

/** The device waits for approval, was revoked, or runs on two machines. */
class ProvenButRefused extends BrimError {}

class NotAdmitted extends BrimError {
  constructor(cause: unknown) {
    super('BROKER_UNREACHABLE', 'the bridge could not register this device at its broker', {
      cause,
      hint: "the bridge's log says why; the agent tries again by itself",
    })
  }
}

/** Rounded up: what is due then is due. */
const secondsOf = (ms: number | undefined): number | undefined => (ms === undefined ? undefined : Math.ceil(ms / 1_000))

const refusal = ({ code, message, hint }: Refused) => new BrimError(code, message, { hint })

const tooManyFailures = () =>
  new BrimError('QUOTA_EXCEEDED', 'too many failed attempts from this address', {
    hint: 'try again in a minute',
    retryAfterMs: failureWindowMs,
  })

const unproven = (device: string) =>
  new BrimError('NOT_AUTHORIZED', `device "${device}" has not proven that it is enrolled at this bridge`, {
    hint: 'enrol it with "brim agent enroll"; a lost bridge database or a replaced key requires that too',
  })
