/** Topics of the control plane (MQTT 3.1.1). Ids are checked, so that they cannot contain a level separator or a wildcard. */
export const idPattern = /^[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?$/

const root = (fleet: string) => `brim/v1/${checked(fleet, 'fleet')}`

export const deviceTopics = ['state', 'telemetry', 'jobs', 'events', 'acks', 'commands', 'replies', 'log', 'faults'] as const
export type DeviceTopic = (typeof deviceTopics)[number]

export const deviceTopic = (fleet: string, device: string, leaf: DeviceTopic) =>
  `${root(fleet)}/device/${checked(device, 'device')}/${leaf}`
export const bridgeStateTopic = (fleet: string, bridge: string) => `${root(fleet)}/bridge/${checked(bridge, 'bridge')}/state`
/** Filter of one topic of every device. */
export const allDevices = (fleet: string, leaf: DeviceTopic) => `${root(fleet)}/device/+/${leaf}`
export const allBridgeStates = (fleet: string) => `${root(fleet)}/bridge/+/state`

/** The device and leaf of a device topic of this fleet; undefined: another topic. */
export function parseDeviceTopic(fleet: string, topic: string): { device: string; leaf: DeviceTopic } | undefined {
  const prefix = `${root(fleet)}/device/`
  if (!topic.startsWith(prefix)) return undefined
  const [device, leaf, ...rest] = topic.slice(prefix.length).split('/')
  if (device === undefined || !idPattern.test(device) || rest.length > 0) return undefined
  const known = deviceTopics.find((name) => name === leaf)
  return known ? { device, leaf: known } : undefined
}

/** The bridge of a bridge state topic of this fleet; undefined: another topic. */
export function parseBridgeStateTopic(fleet: string, topic: string): string | undefined {
  const prefix = `${root(fleet)}/bridge/`
  const [bridge, leaf, ...rest] = topic.startsWith(prefix) ? topic.slice(prefix.length).split('/') : []
  return bridge !== undefined && idPattern.test(bridge) && leaf === 'state' && rest.length === 0 ? bridge : undefined
}

function checked(id: string, what: string): string {
  if (!idPattern.test(id)) throw new RangeError(`${what} id "${id}" must match ${idPattern}`)
  return id
}
