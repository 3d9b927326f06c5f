import { type DeviceTopic, type HomeLeaf, type PairTopic, pairTopics } from './topics.ts'

/** `home`: another program at the broker. */
export type Party = 'device' | 'bridge' | 'home'

/** How the messages of a topic are delivered. */
export interface Delivery {
  readonly from: Party
  /** The subscribers. */
  readonly to: readonly Party[]
  readonly qos: 0 | 1
  /** The broker delivers the last message to later subscribers. */
  readonly retain: boolean
}

/** Topics under device/<id>. The links publish and subscribe by this table, and the broker's ACL follows it. */
export const deviceDelivery: Readonly<Record<DeviceTopic, Delivery>> = {
  /** The device subscribes too: a late will may replace its retained state. */
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

/** On bridge/<id>/home/<device> and bridge/<id>/drain/<device>. */
export const homeDelivery: Readonly<Record<HomeLeaf, Delivery>> = {
  home: { from: 'bridge', to: ['home'], qos: 1, retain: true },
  drain: { from: 'home', to: ['bridge'], qos: 1, retain: false },
}

export const publishOptions = ({ qos, retain }: Delivery) => ({ qos, retain })

/** Of `leaves`, those below which bridges have topics of their own. */
export const pairsOf = (leaves: readonly DeviceTopic[]): PairTopic[] => pairTopics.filter((leaf) => leaves.includes(leaf))

/** The topics that a party publishes on, or subscribes to. */
export const leavesFrom = (party: Party): DeviceTopic[] => leaves(({ from }) => from === party)
export const leavesTo = (party: Party): DeviceTopic[] => leaves(({ to }) => to.includes(party))

const leaves = (matches: (delivery: Delivery) => boolean): DeviceTopic[] =>
  (Object.keys(deviceDelivery) as DeviceTopic[]).filter((leaf) => matches(deviceDelivery[leaf]))
