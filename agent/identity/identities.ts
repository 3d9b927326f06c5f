import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { losesEncryption } from '../../core/policy/link/enrolled-bridge.ts'
import { webSocketBroker, withMqttPort } from '../../core/wire/protocol/mqtt-url.ts'
import { openBridgeKey } from './bridge-key.ts'
import { openBridgePins } from './bridge-pins.ts'
import { type Credentials, createCredentials } from './credentials.ts'
import { type Enrolment, readEnrolments } from './enrolment.ts'

/** Broker of a device that has not enrolled. */
const localBridge = withMqttPort('mqtt://127.0.0.1')

export interface BridgeCredentials {
  /** Brokers to connect to: those configured, else of the bridges where the device has enrolled, else that of this machine. */
  readonly bridges: readonly string[]
  /** Credentials for the bridge of this broker; undefined if the device has not enrolled there. */
  at(mqttUrl: string): Credentials | undefined
  close(): void
}

export interface IdentityOptions {
  readonly id: string
  readonly fleet: string
  readonly stateDir: string
  /** Brokers that the configuration names; absent: those of the enrolments. */
  readonly bridges?: readonly string[] | undefined
  /** URL of the data plane that the configuration names. */
  readonly dataUrl?: string | undefined
}

/** @throws BrimError IDENTITY_INVALID, CONFIG_INVALID where the data plane is not one that an enrolled device may use */
export function openBridgeCredentials(device: IdentityOptions, clock: Clock, logger: Logger): BridgeCredentials {
  const enrolments = readEnrolments(device.stateDir)
  if (enrolments.length === 0) return { bridges: device.bridges ?? [localBridge], at: () => undefined, close: () => {} }
  const foreign = enrolments.find((one) => one.device !== device.id || one.fleet !== device.fleet)
  if (foreign)
    throw new BrimError(
      'IDENTITY_INVALID',
      `${device.stateDir} belongs to device "${foreign.device}" of fleet "${foreign.fleet}", not to "${device.id}" of "${device.fleet}"`,
      { hint: 'use the --id and --fleet of its enrolment, or another --state-dir' },
    )
  const { bridges = enrolments.map(({ mqttUrl }) => mqttUrl), dataUrl } = device
  const brokersOf = ({ url, mqttUrl, foreignBroker }: Enrolment) =>
    bridges.filter((broker) => broker === mqttUrl || (!foreignBroker && broker === webSocketBroker(url)))
  const used = enrolments.filter((enrolment) => brokersOf(enrolment).length > 0)
  if (dataUrl !== undefined) checkDataUrl(dataUrl, used)
  const known = new Map(
    used.flatMap((enrolment) => {
      const key = openBridgeKey(device.stateDir, enrolment.url)
      const pins = openBridgePins(device.stateDir, enrolment)
      const credentials = createCredentials({ enrolment, key, pins, dataUrl, clock, logger })
      return brokersOf(enrolment).map((broker) => [broker, credentials] as const)
    }),
  )
  return {
    bridges,
    at: (mqttUrl) => known.get(mqttUrl),
    close() {
      for (const credentials of known.values()) credentials.close()
    },
  }
}

/** The data plane gets the device's token. @throws BrimError CONFIG_INVALID */
function checkDataUrl(dataUrl: string, used: readonly Enrolment[]): void {
  if (used.length > 1)
    throw new BrimError('CONFIG_INVALID', `--data-url is allowed with one bridge only; this device enrolled at ${used.length}`, {
      hint: 'name the broker of one of them with --bridge',
    })
  const encrypted = used.find(({ url }) => losesEncryption(url, dataUrl))
  if (encrypted)
    throw new BrimError('CONFIG_INVALID', `--data-url ${dataUrl} is not encrypted, but this device enrolled over TLS`, {
      hint: `use wss://; the key of the bridge at ${encrypted.url} is verified there too`,
    })
}
