import { forgetHomeAssistant } from '../home-assistant/forget-home-assistant.ts'
import { HomeAssistant } from '../home-assistant/home-assistant.ts'
import type { HomeTraffic } from '../link/control.ts'
import type { Base } from './base.ts'
import type { Network } from './network.ts'
import type { Stores } from './stores.ts'
import type { FleetWork } from './work.ts'

/** What the bridge exchanges with Home Assistant; undefined: nothing, now or by an earlier start. */
export function openHome(
  { config, clock, closers, logger }: Base,
  { store }: Stores,
  { downlink }: Network,
  { devices }: FleetWork,
): HomeTraffic | undefined {
  if (!config.homeAssistant) return forgetHomeAssistant(store, downlink.retain)
  const { fleet, id: bridge } = config
  const home = new HomeAssistant({ store, fleet, bridge, devices, downlink, clock, logger: logger.child({ component: 'home' }) })
  closers.push(() => home.close())
  return home
}
