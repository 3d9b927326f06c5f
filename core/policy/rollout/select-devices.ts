import { parseVersionRange } from '../../kit/base/version-range.ts'
import type { Device } from '../../wire/protocol/http/devices.ts'
import { isPresent } from '../fleet/presence.ts'

/** Which devices a rollout is for: those that every given condition fits. */
export interface DeviceSelector {
  /** Names. */
  readonly devices?: readonly string[] | undefined
  /** Labels that a device must all have. */
  readonly labels?: Readonly<Record<string, string>> | undefined
  /** Groups of which a device's enrolment token is one. */
  readonly groups?: readonly string[] | undefined
  /** Part of the name of a Jetson module, in any case: `orin nx`. */
  readonly module?: string | undefined
  /** Of the agent: `<0.3.0`. */
  readonly agentVersion?: string | undefined
}

export type SelectableDevice = Pick<Device, 'id' | 'state' | 'agent' | 'labels' | 'identity' | 'telemetry'>

/**
 * The devices of a rollout, in the order in which they start: those that are connected come first, because the first group
 * decides about the others. Devices that never connected are left out unless they are named, devices that may not connect always.
 */
export function selectDevices<D extends SelectableDevice>(fleet: readonly D[], selector: DeviceSelector): D[] {
  const fits = matcherOf(selector)
  const isNamed = selector.devices !== undefined
  const selected = fleet.filter(
    (device) => (device.state !== null || isNamed) && (device.identity?.status ?? 'approved') === 'approved' && fits(device),
  )
  const isConnected = ({ state }: D) => state !== null && isPresent(state as Parameters<typeof isPresent>[0])
  return [...selected.filter(isConnected), ...selected.filter((device) => !isConnected(device))]
}

/** A figure that the bridge does not know fits no condition. */
function matcherOf({ devices, labels = {}, groups, module, agentVersion }: DeviceSelector) {
  const names = devices && new Set(devices)
  const pairs = Object.entries(labels)
  const wantedModule = module?.toLowerCase()
  const fitsVersion = agentVersion === undefined ? undefined : (parseVersionRange(agentVersion) ?? (() => false))
  return (device: SelectableDevice): boolean =>
    (names === undefined || names.has(device.id)) &&
    pairs.every(([key, value]) => device.labels[key] === value) &&
    (groups === undefined || groups.includes(device.identity?.group ?? '')) &&
    (wantedModule === undefined || (device.telemetry?.device?.module?.toLowerCase().includes(wantedModule) ?? false)) &&
    (fitsVersion === undefined || fitsVersion(device.agent ?? ''))
}
