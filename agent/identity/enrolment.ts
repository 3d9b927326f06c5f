import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { BrimError, orThrow } from '../../core/kit/base/errors.ts'
import type { BridgeAddress } from '../../core/kit/base/http-client.ts'
import { writePrivate } from '../../core/kit/base/private-file.ts'
import { identityOperations } from '../../core/wire/protocol/http/identity.ts'
import {
  type EnrolReply,
  type GrantReply,
  type NonceReply,
  type RenewKeyReply,
  readInvitation,
  signedBytes,
} from '../../core/wire/protocol/identity.ts'
import { brokerUrl, webSocketBroker, withMqttPort } from '../../core/wire/protocol/mqtt-url.ts'
import { keyFileAt, ownKeyFileOf, removeBridgeKeys } from './bridge-key.ts'
import { hardwareOf } from './hardware.ts'
import { type DeviceKey, identityDirOf, keyFileOf, makeKey, readDeviceKey } from './key-file.ts'
import { postJson } from './post-json.ts'

const Enrolment = z.strictObject({
  /** HTTP address of the bridge. */
  url: z.url({ protocol: /^https?$/ }),
  /** URL of the bridge's broker, or of its nodes. */
  mqttUrl: brokerUrl(/^(?:mqtt|ws)s?$/, 'must be the URL of a broker'),
  /** Whether the broker is a separate server, whose TLS key differs from the bridge's. */
  foreignBroker: z.boolean().default(false),
  /** SHA-256 of the bridge's public TLS key; absent: its certificate is one that this system trusts. */
  pin: z.string().optional(),
  bridge: z.string(),
  fleet: z.string(),
  device: z.string(),
})
/** An enrolment of this device at a bridge. */
export type Enrolment = z.infer<typeof Enrolment>

/** With every TLS key that the device accepts of the bridge. */
export type PinnedEnrolment = Omit<Enrolment, 'foreignBroker' | 'pin'> & Pick<BridgeAddress, 'pin'>

const enrolmentsFileOf = (stateDir: string) => join(identityDirOf(stateDir), 'enrolments.json')

/** @throws BrimError IDENTITY_INVALID */
export function readEnrolments(stateDir: string): Enrolment[] {
  const path = enrolmentsFileOf(stateDir)
  if (!existsSync(path)) return []
  return orThrow(
    () => z.array(Enrolment).parse(JSON.parse(readFileSync(path, 'utf8'))),
    'IDENTITY_INVALID',
    `${path} cannot be read`,
    'run "brim agent reset-identity", then enrol again',
  )
}

export interface EnrolOptions {
  readonly stateDir: string
  readonly device: string
  /** As printed by "brim bridge token create". */
  readonly token: string
  /** Replace an existing key, which voids its other enrolments. */
  readonly replace: boolean
}

/**
 * Enrols this device at a bridge with an enrolment token. Creates the device's key if there is none.
 * @throws BrimError ENROLL_REFUSED, DEVICE_CLONED, IDENTITY_*, BRIDGE_UNREACHABLE, TARGET_UNWRITABLE
 */
export async function enrol(
  options: EnrolOptions,
  signal?: AbortSignal,
): Promise<Enrolment & Pick<EnrolReply, 'status' | 'group'>> {
  const { stateDir, device, replace } = options
  const { url, secret, pin } = readInvitation(options.token)
  const at = { url, pin }
  // First of all: an unreachable bridge must not cost the device its key.
  const { nonce, bridge, fleet } = await postJson(at, identityOperations.nonce, {}, signal)
  const keyFile = keyFileOf(stateDir)
  if (replace) resetIdentity(stateDir)
  else if (!existsSync(keyFile)) makeKey(keyFile)
  const others = readEnrolments(stateDir)
  // The bridge may have another address since: it knows the device by the key that was renewed there.
  const known =
    others.find((other) => other.url === url) ?? others.find((other) => other.bridge === bridge && other.fleet === fleet)
  const knownFile = keyFileAt(stateDir, known?.url ?? url)
  const key = readDeviceKey(knownFile)
  const hardware = hardwareOf()
  const signature = key.sign(signedBytes({ purpose: 'enroll', nonce, bridge, fleet, device, hardware }))
  const { publicKey } = key
  const request = { v: 1, device, nonce, signature, hardware, token: secret, publicKey }
  const reply = await postJson(at, identityOperations.enrol, request, signal)
  const { status, group, mqttUrl: foreign, mqttUrls = [foreign] } = reply
  const mqttUrl = foreign === undefined ? ownBroker(url, reply) : withMqttPort(mqttUrls.join(','))
  const enrolment: Enrolment = { url, mqttUrl, foreignBroker: foreign !== undefined, pin, bridge, fleet, device }
  if (knownFile !== keyFileAt(stateDir, url)) writePrivate(ownKeyFileOf(stateDir, url), readFileSync(knownFile, 'utf8'))
  // Replaces an earlier enrolment at this bridge: its broker may have changed.
  const kept = others.filter((other) => other.mqttUrl !== mqttUrl && other.url !== url)
  writePrivate(enrolmentsFileOf(stateDir), `${JSON.stringify([...kept, enrolment], null, 2)}\n`)
  return { ...enrolment, status, group }
}

/** URL of the broker in a bridge. @param url of its HTTP */
function ownBroker(url: string, { mqttPort, mqttPath, mqttTls }: EnrolReply): string {
  if (mqttPort === undefined) return webSocketBroker(url, mqttPath)
  return withMqttPort(`${mqttTls ? 'mqtts' : 'mqtt'}://${new URL(url).hostname}:${mqttPort}`)
}

/** The bridge shows another TLS key from now on. @throws BrimError IDENTITY_INVALID, TARGET_UNWRITABLE */
export function replacePin(stateDir: string, url: string, pin: string): void {
  const changed = readEnrolments(stateDir).map((one) => (one.url === url ? { ...one, pin } : one))
  writePrivate(enrolmentsFileOf(stateDir), `${JSON.stringify(changed, null, 2)}\n`)
}

/** Creates a new key without enrolments, as a copied disk image needs. @throws BrimError TARGET_UNWRITABLE */
export function resetIdentity(stateDir: string): DeviceKey {
  writePrivate(enrolmentsFileOf(stateDir), '[]\n')
  removeBridgeKeys(stateDir)
  return makeKey(keyFileOf(stateDir))
}

/**
 * Requests a grant for this device from the bridge where it enrolled.
 * @throws BrimError NOT_AUTHORIZED, DEVICE_CLONED, IDENTITY_INVALID, BRIDGE_UNREACHABLE
 */
export async function requestGrant(enrolment: PinnedEnrolment, key: DeviceKey, signal: AbortSignal): Promise<GrantReply> {
  const { device } = enrolment
  const { nonce, bridge, fleet } = await requestNonce(enrolment, signal)
  const hardware = hardwareOf()
  const signature = key.sign(signedBytes({ purpose: 'session', nonce, bridge, fleet, device, hardware }))
  const pins = [enrolment.pin ?? []].flat()
  const request = { v: 1, device, nonce, signature, hardware, renewsKey: true, pins }
  return postJson(enrolment, identityOperations.session, request, signal)
}

/** Replaces the device's key at a bridge. @throws as `requestGrant` does */
export async function requestKeyRenewal(
  enrolment: PinnedEnrolment,
  { current, next }: { readonly current: DeviceKey; readonly next: DeviceKey },
  signal: AbortSignal,
): Promise<RenewKeyReply> {
  const { device } = enrolment
  const { nonce, bridge, fleet } = await requestNonce(enrolment, signal)
  const hardware = hardwareOf()
  const { publicKey } = next
  const bytes = signedBytes({ purpose: 'renew-key', nonce, bridge, fleet, device, hardware, newKey: publicKey })
  const proof = { signature: current.sign(bytes), newSignature: next.sign(bytes) }
  return postJson(enrolment, identityOperations.renewKey, { v: 1, device, nonce, hardware, publicKey, ...proof }, signal)
}

async function requestNonce({ url, pin, ...expected }: PinnedEnrolment, signal: AbortSignal): Promise<NonceReply> {
  const reply = await postJson({ url, pin }, identityOperations.nonce, {}, signal)
  const { bridge, fleet } = reply
  // Another bridge could forward the signature to the real one.
  if (bridge !== expected.bridge || fleet !== expected.fleet)
    throw new BrimError(
      'IDENTITY_INVALID',
      `${url} is bridge "${bridge}" of fleet "${fleet}", but this device enrolled at "${expected.bridge}" of "${expected.fleet}"`,
      { hint: 'is the address right? if the bridge was renamed, enrol again' },
    )
  return reply
}
