import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import { type Credentials, createCredentials } from './credentials.ts'
import { readEnrolments } from './enrolment.ts'
import { keyFileOf, readKey } from './key-file.ts'

/** Broker of a device that has not enrolled. */
const localBridge = 'mqtt://127.0.0.1:1883'

/** The device's credentials by bridge. */
export interface Identities {
  /** Brokers of the bridges where the device has enrolled; without any, the broker of this machine. */
  readonly bridges: readonly string[]
  /** Credentials for the bridge of this broker; undefined if the device has not enrolled there. */
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
      `${device.stateDir} belongs to device "${foreign.device}" of fleet "${foreign.fleet}", not to "${device.id}" of "${device.fleet}"`,
      { hint: 'use the --id and --fleet of its enrolment, or another --state-dir' },
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
