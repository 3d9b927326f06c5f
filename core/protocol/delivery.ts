import type { DeviceTopic } from './topics.ts'

export type Party = 'device' | 'bridge'

/** How what is said on a topic gets there. */
export interface Delivery {
  readonly from: Party
  /** Who subscribes. */
  readonly to: readonly Party[]
  readonly qos: 0 | 1
  /** The broker hands the last one to whoever subscribes later. */
  readonly retain: boolean
}

/** Topics under device/<id>: what the links publish and subscribe by, and the broker's rules allow. */
export const deviceDelivery: Readonly<Record<DeviceTopic, Delivery>> = {
  /** The device listens too: a late will may have buried what it said. */
  state: { from: 'device', to: ['bridge', 'device'], qos: 1, retain: true },
  telemetry: { from: 'device', to: ['bridge'], qos: 1, retain: false },
  jobs: { from: 'bridge', to: ['device'], qos: 1, retain: false },
  events: { from: 'device', to: ['bridge'], qos: 1, retain: false },
  acks: { from: 'bridge', to: ['device'], qos: 1, retain: false },
  commands: { from: 'bridge', to: ['device'], qos: 1, retain: false },
  replies: { from: 'device', to: ['bridge'], qos: 1, retain: false },
  log: { from: 'device', to: ['bridge'], qos: 1, retain: false },
  faults: { from: 'bridge', to: ['device'], qos: 0, retain: false },
}

/** On bridge/<id>/state. */
export const bridgeStateDelivery: Delivery = { from: 'bridge', to: ['device', 'bridge'], qos: 1, retain: true }

/** The part of it that an MQTT client is told. */
export const publishOptions = ({ qos, retain }: Delivery) => ({ qos, retain })

/** The leaves that this side publishes, or subscribes. */
export const leavesFrom = (party: Party): DeviceTopic[] => leaves(({ from }) => from === party)
export const leavesTo = (party: Party): DeviceTopic[] => leaves(({ to }) => to.includes(party))

const leaves = (which: (delivery: Delivery) => boolean): DeviceTopic[] =>
  (Object.keys(deviceDelivery) as DeviceTopic[]).filter((leaf) => which(deviceDelivery[leaf]))
