import { leavesFrom, leavesTo } from '../../core/protocol/delivery.ts'
import { idPattern } from '../../core/protocol/topics.ts'

const deviceMayPublish = leavesFrom('device')
const deviceMaySubscribe = leavesTo('device')
const bridgeMayPublish = leavesFrom('bridge')

export type ClientRole = { kind: 'device' | 'bridge'; id: string } | { kind: 'watcher' }

/** MQTT client ids are `device-<id>` and `bridge-<id>`; whoever has another only watches. */
export function roleOf(clientId: string): ClientRole {
  const match = /^(device|bridge)-(.+)$/.exec(clientId)
  const [, kind, id] = match ?? []
  if (id === undefined || !idPattern.test(id)) return { kind: 'watcher' }
  return { kind: kind === 'device' ? 'device' : 'bridge', id }
}

export interface TopicRules {
  /** Topics; `+` is any one name. Wills too. */
  readonly publish: readonly string[]
  /** Filters, and all that are narrower. */
  readonly subscribe: readonly string[]
}

/** What a device or a bridge of a fleet may: the rules of every broker, whoever enforces them. */
export function rulesOf({ kind, id }: { kind: 'device' | 'bridge'; id: string }, fleet: string): TopicRules {
  const said = (leaves: readonly string[], device: string) => leaves.map((leaf) => `brim/v1/${fleet}/device/${device}/${leaf}`)
  const bridges = (bridge: string) => `brim/v1/${fleet}/bridge/${bridge}/state`
  return kind === 'device'
    ? { publish: said(deviceMayPublish, id), subscribe: [...said(deviceMaySubscribe, id), bridges('+')] }
    : { publish: [...said(bridgeMayPublish, '+'), bridges(id)], subscribe: [...said(['+'], '+'), bridges('+')] }
}

/**
 * Whether this client may publish (or leave a will) there: under this fleet alone, a device under its own id, a bridge to
 * devices and on its own state.
 */
export function mayPublish(clientId: string, topic: string, fleet: string): boolean {
  const role = roleOf(clientId)
  if (role.kind === 'watcher' || /[+#]/.test(topic)) return false
  return rulesOf(role, fleet).publish.some((rule) => covers(rule, topic))
}

/**
 * Whether this client may subscribe there: a device to what is said to it and to the bridges of this fleet, a bridge to all
 * of it. Who only watches may see everything; there are such only where nobody has to prove who they are.
 */
export function maySubscribe(clientId: string, filter: string, fleet: string): boolean {
  const role = roleOf(clientId)
  return role.kind === 'watcher' || rulesOf(role, fleet).subscribe.some((rule) => covers(rule, filter))
}

/** Whether all that this topic or filter stands for is under the rule. */
function covers(rule: string, filter: string): boolean {
  const [allowed, asked] = [rule.split('/'), filter.split('/')]
  const within = (level: string, at: number) => {
    const name = asked[at] ?? ''
    return level === name || (level === '+' && (name === '+' || idPattern.test(name)))
  }
  return allowed.length === asked.length && allowed.every(within)
}
