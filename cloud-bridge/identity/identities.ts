import { createPublicKey, randomBytes, verify } from 'node:crypto'
import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import {
  EnrolReply,
  EnrolRequest,
  enrolPath,
  type NonceReply,
  noncePath,
  type SessionReply,
  SessionRequest,
  sessionPath,
  signedBytes,
} from '../../core/protocol/identity.ts'
import { understood } from '../http/json.ts'
import { FailureLimit } from './failure-limit.ts'
import type { Gate } from './gate.ts'
import { Nonces, nonceLifetimeMs } from './nonces.ts'
import type { Refused } from './rules.ts'
import { SessionTokens } from './session-tokens.ts'
import type { IdentityStore } from './store.ts'

/** How long a session lasts that its device does not renew. */
export const sessionMs = 15 * 60_000
/** How often sessions that are over, and revocations by another process, are looked for. */
const watchEveryMs = 1_000

export interface IdentitiesOptions {
  readonly store: IdentityStore
  readonly bridge: string
  readonly fleet: string
  /** Whether who connects is asked for a proof from the start, and else once a device has enrolled. */
  readonly asks: boolean
  readonly asksOnceEnrolled: boolean
  /** Of the control plane. */
  readonly mqttPort: () => number
  readonly mqttTls: boolean
  /** Where it is another program's broker. */
  readonly mqttUrl?: () => string | undefined
  /** A device has a session from now on. @returns its password for the control plane; undefined: its tokens */
  readonly onBegin?: (device: string) => Promise<string | undefined>
  /** A device holds no session any more, by expiry, revocation or another key: what it has here is to end. */
  readonly onEnd: (device: string) => void
  readonly clock: Clock
  readonly logger: Logger
}

/** What answers a POST, given its JSON body and the address that it came from. */
export type PostRoute = (body: unknown, from: string) => unknown

interface Session {
  readonly id: string
  readonly publicKey: string
  /** Monotonic. */
  untilMs: number
  /** For the control plane, once the broker knows it. */
  readonly mqttPassword: Promise<string | undefined>
}

export interface Identities extends Gate {
  /** Path → what answers. */
  readonly posts: Readonly<Record<string, PostRoute>>
  /** For this bridge's own place on its control plane. */
  readonly ownToken: string
  /** Whether this MQTT client id is a device's that has a session now, or this bridge's own. */
  isPresent(clientId: string): boolean
  close(): void
}

/**
 * Who devices are: nonces, enrolment, sessions. A session belongs to the device and is prolonged by each further token that
 * it signs for; what it has connected lives as long as the session does.
 */
export function createIdentities({ store, bridge, fleet, clock, logger, ...options }: IdentitiesOptions): Identities {
  const nonces = new Nonces(clock)
  const tokens = new SessionTokens(clock)
  const limit = new FailureLimit(clock)
  /** Device → its session. A token of another one is worth nothing. */
  const sessions = new Map<string, Session>()
  const stopping = new AbortController()
  let { asks } = options

  function proven(
    purpose: 'enroll' | 'session',
    { nonce, device, hardware, signature }: SessionRequest,
    publicKey: string,
  ): boolean {
    if (!nonces.isGood(nonce)) return false
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: publicKey }, format: 'jwk' })
    const signed = signedBytes({ purpose, nonce, bridge, fleet, device, hardware })
    const isProven = verify(null, signed, key, Buffer.from(signature, 'base64url'))
    if (isProven) nonces.spend(nonce)
    return isProven
  }

  function enrol(body: unknown, from: string): EnrolReply {
    const request = understood(EnrolRequest, body)
    if (!proven('enroll', request, request.publicKey)) throw unproven(request.device)
    const result = store.enrol(request, from)
    if (result.kind === 'refused') throw refusal(result)
    const { group, status } = result.device
    logger.info({ device: request.device, group, status }, 'device enrolled')
    if (!asks && options.asksOnceEnrolled) {
      asks = true
      logger.info('a device has enrolled: whoever connects from now on has to prove who they are')
    }
    return EnrolReply.parse({
      v: 1,
      group,
      status,
      mqttPort: options.mqttPort(),
      mqttTls: options.mqttTls,
      mqttUrl: options.mqttUrl?.(),
    })
  }

  async function openSession(body: unknown, from: string): Promise<SessionReply> {
    const request = understood(SessionRequest, body)
    const { device, hardware } = request
    const known = store.device(device)
    // A wrong key and an unknown name look alike: names are nobody's business.
    if (!known || !proven('session', request, known.publicKey)) throw unproven(device)
    const result = store.openSession(device, hardware, from)
    if (result.kind === 'refused') throw new ProvenButRefused(result.code, result.message, result)
    const { publicKey } = known
    // Another key is another device, whatever its name: what the one before it has connected is over.
    if (sessions.get(device)?.publicKey !== publicKey) end(device)
    const session = sessions.get(device) ?? begin(device, publicKey)
    session.untilMs = clock.nowMs() + sessionMs
    const mqttPassword = await session.mqttPassword.catch((cause: unknown) => {
      if (sessions.get(device) === session) end(device)
      throw new NotAdmitted(cause)
    })
    return { v: 1, token: tokens.mint(`device-${device}`, session.id, sessionMs), validForS: sessionMs / 1_000, mqttPassword }
  }

  function begin(device: string, publicKey: string): Session {
    const mqttPassword = Promise.resolve(options.onBegin?.(device))
    // Whoever asks for it is told; where nobody does any more, nobody need be.
    mqttPassword.catch(() => {})
    const session = { id: randomBytes(8).toString('hex'), publicKey, untilMs: 0, mqttPassword }
    sessions.set(device, session)
    return session
  }

  function end(device: string): void {
    if (sessions.delete(device)) options.onEnd(device)
  }

  const tooMany = () =>
    new BrimError('NOT_AUTHORIZED', 'too many failed attempts from this address', { hint: 'try again in a minute' })

  /** @param proofsPass whoever proves who they are is let through, however many others behind their address have failed */
  const limited =
    (route: (body: unknown, from: string) => unknown, proofsPass: boolean): PostRoute =>
    async (body, from) => {
      const exceeded = limit.exceeded(from)
      if (exceeded && !proofsPass) throw tooMany()
      try {
        return await route(body, from)
      } catch (error) {
        // A device that has proven its key may ask again and again: others behind its address must not pay for that.
        if (error instanceof ProvenButRefused || error instanceof NotAdmitted) throw error
        limit.failed(from)
        throw exceeded ? tooMany() : error
      }
    }

  function lookAfter(): void {
    const denied = store.denied()
    for (const [device, { untilMs, publicKey }] of sessions) {
      const isItself = !denied.has(device) && store.device(device)?.publicKey === publicKey
      if (clock.nowMs() < untilMs && isItself) continue
      logger.info({ device, revoked: !isItself }, 'session of the device is over')
      end(device)
    }
  }

  /** @param session that it must be; any where none is said */
  function isGood(clientId: string, session?: string): boolean {
    const device = clientId.slice('device-'.length)
    const current = clientId.startsWith('device-') ? sessions.get(device) : undefined
    if (!current || clock.nowMs() >= current.untilMs || (session ?? current.id) !== current.id) return false
    // A token outlives a revocation by minutes; what it is good for does not.
    const known = store.device(device)
    return known?.status === 'approved' && known.publicKey === current.publicKey
  }

  async function watch(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        lookAfter()
      } catch (err) {
        logger.error({ err }, 'revocations cannot be read')
      }
      await clock.sleep(watchEveryMs, stopping.signal).catch(() => {})
    }
  }
  void watch()

  return {
    get asks() {
      return asks
    },
    posts: {
      [noncePath]: (): NonceReply => ({ v: 1, nonce: nonces.issue(), bridge, fleet, validForS: nonceLifetimeMs / 1_000 }),
      [enrolPath]: limited(enrol, false),
      [sessionPath]: limited(openSession, true),
    },
    subjectOf(token) {
      const key = store.keyOf(token)
      if (key) return `${key.role}-${key.name}`
      const read = tokens.read(token)
      if (!read?.subject.startsWith('device-')) return read?.subject
      return isGood(read.subject, read.session) ? read.subject : undefined
    },
    isPresent: (clientId) => clientId === `bridge-${bridge}` || isGood(clientId),
    ownToken: tokens.mint(`bridge-${bridge}`, '', Number.MAX_SAFE_INTEGER),
    close: () => stopping.abort(),
  }
}

/** It waits for approval, was revoked, or runs on two machines. */
class ProvenButRefused extends BrimError {}

/** The broker could not be told of it. */
class NotAdmitted extends BrimError {
  constructor(cause: unknown) {
    super('BROKER_UNREACHABLE', 'the broker of this bridge could not be told of this device', {
      cause,
      hint: "the bridge's log says why; agents try again by themselves",
    })
  }
}

const refusal = ({ code, message, hint }: Refused) => new BrimError(code, message, { hint })

const unproven = (device: string) =>
  new BrimError('NOT_AUTHORIZED', `device "${device}" has not proven that it is enrolled at this bridge`, {
    hint: "brim agent enroll; was the bridge's database lost, or the key replaced?",
  })
