import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import { type Credentials, createCredentials } from './credentials.ts'
import { readEnrolments } from './enrolment.ts'
import { keyFileOf, readKey } from './key-file.ts'

/** Bridge of a device that has enrolled nowhere. */
const localBridge = 'mqtt://127.0.0.1:1883'

/** Who this device is, and where. */
export interface Identities {
  /** Control planes of the bridges that it has enrolled at, else the one of this machine. */
  readonly bridges: readonly string[]
  /** For the bridge of this control plane; undefined where the device has not enrolled. */
  at(mqttUrl: string): Credentials | undefined
  close(): void
}

/** @throws BrimError IDENTITY_INVALID */
export function openIdentities(
  device: { id: string; fleet: string; stateDir: string },
  clock: Clock,
  logger: Logger,
): Identities {
  const enrolments = readEnrolments(device.stateDir)
  if (enrolments.length === 0) return { bridges: [localBridge], at: () => undefined, close: () => {} }
  const foreign = enrolments.find((one) => one.device !== device.id || one.fleet !== device.fleet)
  if (foreign)
    throw new BrimError(
      'IDENTITY_INVALID',
      `${device.stateDir} is that of device "${foreign.device}" in fleet "${foreign.fleet}", not of "${device.id}" in "${device.fleet}"`,
      { hint: 'use the --id and --fleet that it has enrolled with, or another --state-dir' },
    )
  const key = readKey(keyFileOf(device.stateDir))
  const known = new Map(enrolments.map((enrolment) => [enrolment.mqttUrl, createCredentials({ enrolment, key, clock, logger })]))
  return {
    bridges: [...known.keys()],
    at: (mqttUrl) => known.get(mqttUrl),
    close() {
      for (const credentials of known.values()) credentials.close()
    },
  }
}
