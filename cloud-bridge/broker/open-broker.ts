import type { Logger } from '../../core/base/logger.ts'
import type { BrokerConfig } from '../config.ts'
import { readLogin } from './broker-secrets.ts'
import type { ControlBroker } from './control-broker.ts'
import { driveMosquitto } from './driven-mosquitto.ts'
import { type BrokerOptions, startEmbeddedBroker } from './embedded-broker.ts'
import { type LastSaid, takePlace } from './take-place.ts'

export interface OpenBrokerOptions extends Omit<BrokerOptions, 'logger'> {
  /** Absent: the one in this process. */
  readonly broker?: BrokerConfig | undefined
  readonly fleet: string
  readonly bridge: string
  /** Of this bridge: for a broker that asks it who may connect. */
  readonly ownToken: string
  /** What this bridge has heard last of a device. */
  readonly lastSaid: (device: string) => LastSaid
  readonly logger: Logger
}

/**
 * The broker of the control plane as the configuration has it.
 * @throws BrimError LISTEN_REFUSED, LISTEN_FAILED, BROKER_UNREACHABLE, NOT_AUTHORIZED, CONFIG_INVALID
 */
export async function openBroker(options: OpenBrokerOptions): Promise<ControlBroker> {
  const { broker, logger } = options
  if (!broker) return embedded(options)
  const { url, adminFile, hookSecretFile } = broker
  if (adminFile !== undefined) return driveMosquitto({ ...options, url, admin: readLogin(adminFile) })
  return asked({ ...options, url, asks: hookSecretFile !== undefined, logger })
}

async function embedded(options: BrokerOptions): Promise<ControlBroker> {
  const { url, cut, close } = await startEmbeddedBroker(options)
  return { url, external: false, admit: async () => undefined, cut: (device) => cut(`device-${device}`), close }
}

/** A broker that asks the bridge who may do what (hook.ts), or lets everybody on this machine in. */
function asked({ url, asks, fleet, bridge, ownToken, lastSaid, logger }: OpenBrokerOptions & { url: string; asks: boolean }) {
  const cutting = new Set<Promise<void>>()
  const broker: ControlBroker = {
    url,
    external: true,
    admit: async () => undefined,
    cut(device) {
      // Where nobody has to prove who they are it would be back at once.
      if (!asks) return
      const place = { url, fleet, device, username: `bridge-${bridge}`, password: ownToken, lastSaid: lastSaid(device) }
      const cut = takePlace(place)
        .catch((err: unknown) => logger.error({ err, device }, 'session is over, but the broker could not be made to cut it off'))
        .finally(() => cutting.delete(cut))
      cutting.add(cut)
    },
    close: async () => void (await Promise.all(cutting)),
  }
  return broker
}
