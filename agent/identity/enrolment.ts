import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { BrimError } from '../../core/base/errors.ts'
import { writePrivate } from '../../core/base/private-file.ts'
import { identityOperations } from '../../core/protocol/http/identity.ts'
import { EnrolReply, GrantReply, NonceReply, readInvitation, signedBytes } from '../../core/protocol/identity.ts'
import { hardwareOf } from './hardware.ts'
import { type DeviceKey, keyFileOf, makeKey, readKey } from './key-file.ts'
import { postJson } from './post-json.ts'

const Enrolment = z.strictObject({
  /** The bridge's HTTP address. */
  url: z.url({ protocol: /^https?$/ }),
  /** Its control plane. */
  mqttUrl: z.url({ protocol: /^mqtts?$/ }),
  /** Whether that is a broker of its own, which shows another key than the bridge. */
  foreignBroker: z.boolean().default(false),
  /** SHA-256 of the public key that it shows by TLS; absent: a certificate that this system trusts. */
  pin: z.string().optional(),
  bridge: z.string(),
  fleet: z.string(),
  device: z.string(),
})
/** Where this device is enrolled, and as what. */
export type Enrolment = z.infer<typeof Enrolment>

const enrolmentsFileOf = (stateDir: string) => join(stateDir, 'identity', 'enrolments.json')

/** @throws BrimError IDENTITY_INVALID */
export function readEnrolments(stateDir: string): Enrolment[] {
  const path = enrolmentsFileOf(stateDir)
  if (!existsSync(path)) return []
  try {
    return z.array(Enrolment).parse(JSON.parse(readFileSync(path, 'utf8')))
  } catch (cause) {
    throw new BrimError('IDENTITY_INVALID', `${path} cannot be read`, {
      cause,
      hint: 'brim agent reset-identity; then enrol again',
    })
  }
}

export interface EnrolWish {
  readonly stateDir: string
  readonly device: string
  /** As "brim bridge token create" has printed it. */
  readonly token: string
  /** A new key even where there is one; its other enrolments are void then. */
  readonly replace: boolean
}

/**
 * Makes this device's key where there is none, and shows it to a bridge with an enrolment token.
 * @throws BrimError ENROLL_REFUSED, DEVICE_CLONED, IDENTITY_*, BRIDGE_UNREACHABLE, TARGET_UNWRITABLE
 */
export async function enrol(wish: EnrolWish, signal?: AbortSignal): Promise<Enrolment & Pick<EnrolReply, 'status' | 'group'>> {
  const { stateDir, device, replace } = wish
  const { url, secret, pin } = readInvitation(wish.token)
  const at = { url, pin }
  // First: for a bridge that cannot be reached no key is given up.
  const { nonce, bridge, fleet } = await postJson(at, identityOperations.nonce.path, {}, NonceReply, signal)
  const keyFile = keyFileOf(stateDir)
  if (replace) resetIdentity(stateDir)
  else if (!existsSync(keyFile)) makeKey(keyFile)
  const key = readKey(keyFile)
  const others = readEnrolments(stateDir)
  const hardware = hardwareOf()
  const signature = key.sign(signedBytes({ purpose: 'enroll', nonce, bridge, fleet, device, hardware }))
  const { publicKey } = key
  const request = { v: 1, device, nonce, signature, hardware, token: secret, publicKey }
  const {
    status,
    group,
    mqttPort,
    mqttTls,
    mqttUrl: brokerUrl,
  } = await postJson(at, identityOperations.enrol.path, request, EnrolReply, signal)
  const mqttUrl = brokerUrl ?? `${mqttTls ? 'mqtts' : 'mqtt'}://${new URL(url).hostname}:${mqttPort}`
  const enrolment: Enrolment = { url, mqttUrl, foreignBroker: brokerUrl !== undefined, pin, bridge, fleet, device }
  // The bridge may have gone to another broker since.
  const kept = others.filter((other) => other.mqttUrl !== mqttUrl && other.url !== url)
  writePrivate(enrolmentsFileOf(stateDir), `${JSON.stringify([...kept, enrolment], null, 2)}\n`)
  return { ...enrolment, status, group }
}

/** A new key, enrolled nowhere: what a copied image needs. @throws BrimError TARGET_UNWRITABLE */
export function resetIdentity(stateDir: string): DeviceKey {
  writePrivate(enrolmentsFileOf(stateDir), '[]\n')
  return makeKey(keyFileOf(stateDir))
}

/**
 * Signs for one more session of this device at the bridge that it enrolled at.
 * @throws BrimError NOT_AUTHORIZED, DEVICE_CLONED, IDENTITY_INVALID, BRIDGE_UNREACHABLE
 */
export async function openSession(
  { url, pin, device, ...expected }: Omit<Enrolment, 'foreignBroker'>,
  key: DeviceKey,
  signal: AbortSignal,
): Promise<GrantReply> {
  const at = { url, pin }
  const { nonce, bridge, fleet } = await postJson(at, identityOperations.nonce.path, {}, NonceReply, signal)
  // Another bridge could pass our signature on to the real one.
  if (bridge !== expected.bridge || fleet !== expected.fleet)
    throw new BrimError(
      'IDENTITY_INVALID',
      `at ${url} answers bridge "${bridge}" of fleet "${fleet}"; this device enrolled at "${expected.bridge}" of "${expected.fleet}"`,
      { hint: 'is the address still right? if the bridge was renamed, enrol again' },
    )
  const hardware = hardwareOf()
  const signature = key.sign(signedBytes({ purpose: 'session', nonce, bridge, fleet, device, hardware }))
  return postJson(at, identityOperations.session.path, { v: 1, device, nonce, signature, hardware }, GrantReply, signal)
}
