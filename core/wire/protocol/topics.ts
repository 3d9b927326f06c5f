/** Topics of the control plane (MQTT 3.1.1). Ids are checked, so that they cannot contain a level separator or a wildcard. */
export const idPattern = /^[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?$/

const root = (fleet: string) => `brim/v1/${checked(fleet, 'fleet')}`

export const deviceTopics = ['state', 'telemetry', 'jobs', 'events', 'acks', 'commands', 'replies', 'log', 'faults'] as const
export type DeviceTopic = (typeof deviceTopics)[number]

/** Topics with the messages between one bridge and one device. Below each, a bridge may have its own: `jobs/bridge-1`. */
export const pairTopics = ['jobs', 'events', 'acks', 'commands', 'replies', 'faults'] as const
export type PairTopic = (typeof pairTopics)[number]

/** @param bridge whose own topic it is; undefined: that of all bridges */
export const deviceTopic = (fleet: string, device: string, leaf: DeviceTopic, bridge?: string) =>
  `${root(fleet)}/device/${checked(device, 'device')}/${leaf}${ownLevel(bridge)}`
export const bridgeStateTopic = (fleet: string, bridge: string) => `${root(fleet)}/bridge/${checked(bridge, 'bridge')}/state`
/** Filter of one topic of every device. */
export const allDevices = (fleet: string, leaf: DeviceTopic, bridge?: string) =>
  `${root(fleet)}/device/+/${leaf}${ownLevel(bridge)}`
export const allBridgeStates = (fleet: string) => `${root(fleet)}/bridge/+/state`

export interface ParsedDeviceTopic {
  readonly device: string
  readonly leaf: DeviceTopic
  /** Whose own topic it is; undefined: that of all bridges. */
  readonly bridge: string | undefined
}

/** A device topic of this fleet; undefined: another topic. */
export function parseDeviceTopic(fleet: string, topic: string): ParsedDeviceTopic | undefined {
  const prefix = `${root(fleet)}/device/`
  if (!topic.startsWith(prefix)) return undefined
  const [device, name, bridge, ...rest] = topic.slice(prefix.length).split('/')
  if (device === undefined || !idPattern.test(device) || rest.length > 0) return undefined
  const leaf = deviceTopics.find((each) => each === name)
  if (leaf === undefined) return undefined
  const isKnown = bridge === undefined || (idPattern.test(bridge) && pairTopics.some((each) => each === leaf))
  return isKnown ? { device, leaf, bridge } : undefined
}

/** The bridge of a bridge state topic of this fleet; undefined: another topic. */
export function parseBridgeStateTopic(fleet: string, topic: string): string | undefined {
  const prefix = `${root(fleet)}/bridge/`
  const [bridge, leaf, ...rest] = topic.startsWith(prefix) ? topic.slice(prefix.length).split('/') : []
  return bridge !== undefined && idPattern.test(bridge) && leaf === 'state' && rest.length === 0 ? bridge : undefined
}

/** Topics of one device below a bridge, for other programs at the broker such as Home Assistant. */
export const homeLeaves = ['home', 'drain'] as const
export type HomeLeaf = (typeof homeLeaves)[number]

export const homeTopic = (fleet: string, bridge: string, leaf: HomeLeaf, device: string) =>
  `${root(fleet)}/bridge/${checked(bridge, 'bridge')}/${leaf}/${device === '+' ? device : checked(device, 'device')}`

/** A topic of this fleet for other programs; undefined: another topic. */
export function parseHomeTopic(fleet: string, topic: string): { bridge: string; leaf: HomeLeaf; device: string } | undefined {
  const prefix = `${root(fleet)}/bridge/`
  const [bridge = '', name, device = '', ...rest] = topic.startsWith(prefix) ? topic.slice(prefix.length).split('/') : []
  const leaf = homeLeaves.find((each) => each === name)
  return leaf && [bridge, device].every((id) => idPattern.test(id)) && rest.length === 0 ? { bridge, leaf, device } : undefined
}

/** Home Assistant publishes here when it starts and stops, unless it is told otherwise. */
export const homeAssistantStatus = 'homeassistant/status'

/** Where a bridge describes an entity to Home Assistant: below a node of its own, so that rules can hold it to that. */
export const discoveryTopic = (fleet: string, bridge: string, component: string, object: string) =>
  `homeassistant/${component}/${discoveryNode(fleet)}${bridge}/${object}/config`

/** The bridge of this fleet that describes an entity there; undefined: another topic. */
export function parseDiscoveryTopic(fleet: string, topic: string): string | undefined {
  const node = /^homeassistant\/[a-z_]+\/([\w-]+)\/[\w-]+\/config$/.exec(topic)?.[1]
  const bridge = node?.startsWith(discoveryNode(fleet)) ? node.slice(discoveryNode(fleet).length) : ''
  return idPattern.test(bridge) ? bridge : undefined
}

const discoveryNode = (fleet: string) => `brim_${fleet}_`

const ownLevel = (bridge: string | undefined) => (bridge === undefined ? '' : `/${checked(bridge, 'bridge')}`)

function checked(id: string, what: string): string {
  if (!idPattern.test(id)) throw new RangeError(`${what} id "${id}" must match ${idPattern}`)
  return id
}
