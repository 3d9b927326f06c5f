import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { brokerNodes } from '../../core/wire/protocol/mqtt-url.ts'
import type { BrokerConfig } from '../config.ts'
import { readAdmin } from './broker-secrets.ts'
import type { ControlBroker } from './control-broker.ts'
import { driveMosquitto } from './driven-mosquitto.ts'
import { type BrokerOptions, startEmbeddedBroker } from './embedded-broker.ts'
import { type LastState, takeOver } from './take-over.ts'

export interface OpenBrokerOptions extends Omit<BrokerOptions, 'logger'> {
  /** Absent: the embedded broker. */
  readonly broker?: BrokerConfig | undefined
  readonly fleet: string
  readonly bridge: string
  /** The bridge's own password, for a broker that asks the bridge which clients may connect. */
  readonly ownToken: string
  readonly lastState: (device: string) => LastState
  readonly clock: Clock
  readonly logger: Logger
}

/**
 * The broker of the control plane, as configured.
 * @throws BrimError LISTEN_REFUSED, LISTEN_FAILED, BROKER_UNREACHABLE, NOT_AUTHORIZED, CONFIG_INVALID
 */
export async function openBroker(options: OpenBrokerOptions): Promise<ControlBroker> {
  const { broker } = options
  if (!broker) return startEmbeddedBroker(options)
  const { url, adminFile, hookSecretFile } = broker
  if (adminFile !== undefined) {
    const admin = readAdmin(adminFile)
    if ('servers' in admin) {
      // Its library takes 30 ms to load, and few bridges need it.
      const { driveNats } = await import('./driven-nats.ts')
      return driveNats({ ...options, url, admin })
    }
    if (brokerNodes(url).length > 1)
      throw new BrimError('CONFIG_INVALID', `${adminFile} is of a mosquitto, which has one node, not several`, {
        hint: 'name one URL with --broker',
      })
    return driveMosquitto({ ...options, url, admin })
  }
  return askingBroker({ ...options, url, asksBridge: hookSecretFile !== undefined })
}

/** An external broker that asks the bridge (api/broker-hooks.ts), or that requires no authentication. */
function askingBroker(options: OpenBrokerOptions & { readonly url: string; readonly asksBridge: boolean }): ControlBroker {
  const { url, asksBridge, fleet, bridge, ownToken, lastState, clock, logger } = options
  const underWay = new Set<Promise<void>>()
  return {
    url,
    external: true,
    admit: async () => undefined,
    disconnect(device) {
      // Without authentication the device would connect again at once.
      if (!asksBridge) return
      const login = { username: `bridge-${bridge}`, password: ownToken }
      const done = takeOver({ url, fleet, device, ...login, lastState: lastState(device), clock })
        .catch((err: unknown) =>
          logger.error({ err, device }, 'device not disconnected at the broker, though its grant has ended'),
        )
        .finally(() => underWay.delete(done))
      underWay.add(done)
    },
    dropUnproven() {},
    close: async () => void (await Promise.all(underWay)),
  }
}
