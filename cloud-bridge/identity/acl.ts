import { leavesFrom, leavesTo, pairsOf } from '../../core/wire/protocol/delivery.ts'
import {
  type DeviceTopic,
  discoveryTopic,
  homeAssistantStatus,
  homeTopic,
  idPattern,
  parseBridgeStateTopic,
  parseDeviceTopic,
  parseDiscoveryTopic,
  parseHomeTopic,
} from '../../core/wire/protocol/topics.ts'

const deviceLeaves = { publish: leavesFrom('device'), subscribe: leavesTo('device') }
const bridgeLeaves = { publish: leavesFrom('bridge'), subscribe: leavesTo('bridge') }

export interface Member {
  readonly kind: 'device' | 'bridge'
  readonly id: string
}
export type ClientRole = Member | { readonly kind: 'watcher' }

/** MQTT client ids are `device-<id>` and `bridge-<id>`; any other client is a watcher. */
export function roleOf(clientId: string): ClientRole {
  const [, kind, id] = /^(device|bridge)-(.+)$/.exec(clientId) ?? []
  if (id === undefined || !idPattern.test(id)) return { kind: 'watcher' }
  return { kind: kind === 'device' ? 'device' : 'bridge', id }
}

export interface TopicRules {
  /** Topics, wills too; `+` is any one name. */
  readonly publish: readonly string[]
  /** Filters; a narrower filter is covered too. */
  readonly subscribe: readonly string[]
}

/** What a device or a bridge of a fleet may publish and subscribe to: the same rules for every broker. */
export function rulesOf({ kind, id }: Member, fleet: string): TopicRules {
  const deviceTopics = (leaves: readonly string[], device: string) =>
    leaves.map((leaf) => `brim/v1/${fleet}/device/${device}/${leaf}`)
  const bridgeState = (bridge: string) => `brim/v1/${fleet}/bridge/${bridge}/state`
  /** Those below them that belong to one bridge. */
  const ownTopics = (leaves: readonly DeviceTopic[], device: string, bridge: string) =>
    deviceTopics(pairsOf(leaves), device).map((topic) => `${topic}/${bridge}`)
  if (kind === 'device')
    return {
      publish: [...deviceTopics(deviceLeaves.publish, id), ...ownTopics(deviceLeaves.publish, id, '+')],
      subscribe: [...deviceTopics(deviceLeaves.subscribe, id), ...ownTopics(deviceLeaves.subscribe, id, '+'), bridgeState('+')],
    }
  return {
    publish: [
      ...deviceTopics(bridgeLeaves.publish, '+'),
      ...ownTopics(bridgeLeaves.publish, '+', id),
      bridgeState(id),
      homeTopic(fleet, id, 'home', '+'),
      discoveryTopic(fleet, id, '+', '+'),
    ],
    subscribe: [
      ...deviceTopics(['+'], '+'),
      ...ownTopics(bridgeLeaves.subscribe, '+', id),
      bridgeState('+'),
      homeTopic(fleet, id, 'drain', '+'),
      homeAssistantStatus,
    ],
  }
}

/** Wills too. A device publishes under its own id; a bridge publishes to devices and its own state. */
export function mayPublish(clientId: string, topic: string, fleet: string): boolean {
  const role = roleOf(clientId)
  if (role.kind === 'watcher' || /[+#]/.test(topic)) return false
  // As the rules say, but at once: this is asked for each message.
  if (role.kind === 'device') {
    const named = parseDeviceTopic(fleet, topic)
    return named?.device === role.id && deviceLeaves.publish.includes(named.leaf)
  }
  return coversAny(rulesOf(role, fleet).publish, topic)
}

/** The only client that may publish a retained message there; undefined: none. */
export function publisherOf(topic: string, fleet: string): string | undefined {
  const device = parseDeviceTopic(fleet, topic)
  if (device) return device.leaf === 'state' ? `device-${device.device}` : undefined
  const home = parseHomeTopic(fleet, topic)
  if (home?.leaf === 'drain') return undefined
  const bridge = home?.bridge ?? parseBridgeStateTopic(fleet, topic) ?? parseDiscoveryTopic(fleet, topic)
  return bridge === undefined ? undefined : `bridge-${bridge}`
}

/** Whether a watcher may publish there: Home Assistant says when it starts, and its users switch devices. Nothing is retained. */
export const mayTell = (isOperator: boolean, topic: string, fleet: string): boolean =>
  topic === homeAssistantStatus || (isOperator && parseHomeTopic(fleet, topic)?.leaf === 'drain')

/**
 * A device subscribes to its own topics and the bridges of its fleet, a bridge to the whole fleet. A watcher uses any filter:
 * one without a key is connected only where no proof of identity is required, and one with a key receives what `mayWatch` says.
 */
export function maySubscribe(clientId: string, filter: string, fleet: string): boolean {
  const role = roleOf(clientId)
  return role.kind === 'watcher' || coversAny(rulesOf(role, fleet).subscribe, filter)
}

/** Topics of devices that carry the content of jobs. */
const contentLeaves: readonly DeviceTopic[] = ['jobs', 'events', 'acks']

/** Whether a watcher with an API key receives this topic of the fleet: what `GET /v1` shows to the role of its key. */
export function mayWatch(isOperator: boolean, topic: string, fleet: string): boolean {
  const device = parseDeviceTopic(fleet, topic)
  if (device) return isOperator || !contentLeaves.includes(device.leaf)
  return publisherOf(topic, fleet) !== undefined
}

/** Most clients use the topics that their rules name. */
const coversAny = (rules: readonly string[], filter: string): boolean =>
  rules.includes(filter) || rules.some((rule) => covers(rule, filter))

/** A level of a topic: an id, or two that are joined. */
const namePattern = /^[a-z0-9](?:[a-z0-9_-]{0,158}[a-z0-9])?$/

/** Whether the rule covers every topic that `filter` matches. */
function covers(rule: string, filter: string): boolean {
  const [allowed, wanted] = [rule.split('/'), filter.split('/')]
  const isCovered = (level: string, at: number) => {
    const name = wanted[at] ?? ''
    return level === name || (level === '+' && (name === '+' || namePattern.test(name)))
  }
  return allowed.length === wanted.length && allowed.every(isCovered)
}
