import { mqttPorts } from '../../core/wire/protocol/mqtt-url.ts'
import type { ControlBroker } from '../broker/control-broker.ts'
import { openBroker } from '../broker/open-broker.ts'
import type { Access } from './access.ts'
import type { Base } from './base.ts'
import type { Network } from './network.ts'
import type { Stores } from './stores.ts'
import type { FleetWork } from './work.ts'

/** The embedded broker, or control of an external one. @throws BrimError LISTEN_*, BROKER_UNREACHABLE */
export async function openControlBroker(
  base: Base,
  { listeners }: Network,
  stores: Stores,
  { devices }: FleetWork,
  { grants, certificate }: Access,
): Promise<ControlBroker> {
  const { config, clock, closers, logger } = base
  const broker = await openBroker({
    ...config,
    bridge: config.id,
    port: mqttPortOf(base, stores),
    connectionLimits: listeners.mqtt,
    certificate,
    gate: grants,
    ownToken: grants.ownToken,
    lastState: devices.lastState,
    onIdConflict: devices.onIdConflict,
    clock,
    logger: logger.child({ component: 'broker' }),
  })
  closers.push(broker.close)
  return broker
}

/** @returns undefined where MQTT has no port of its own */
function mqttPortOf({ config, logger }: Base, { identityStore }: Stores): number | undefined {
  if (config.onePort) return undefined
  if (config.mqttPort !== undefined) return config.mqttPort
  if (!config.tls) return mqttPorts.plain
  const earlier = identityStore.earlierTlsPort()
  if (earlier === undefined) return mqttPorts.tls
  logger.warn({ port: earlier }, 'MQTT over TLS stays on the port of earlier releases, where devices have enrolled: --mqtt-port')
  return earlier
}
