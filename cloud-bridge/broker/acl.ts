import { type DeviceTopic, idPattern } from '../../core/protocol/topics.ts'

/** What a device says about itself; jobs, acks and commands are said to it. */
const deviceMayPublish: readonly DeviceTopic[] = ['state', 'telemetry', 'events', 'replies', 'log']
/** What is said to it, and its own state, which a late will may have buried. */
const deviceMaySubscribe: readonly DeviceTopic[] = ['jobs', 'acks', 'commands', 'state']
const bridgeMayPublish: readonly DeviceTopic[] = ['jobs', 'acks', 'commands']

export type ClientRole = { kind: 'device' | 'bridge'; id: string } | { kind: 'watcher' }

/** MQTT client ids are `device-<id>` and `bridge-<id>`; whoever has another only watches. */
export function roleOf(clientId: string): ClientRole {
  const match = /^(device|bridge)-(.+)$/.exec(clientId)
  const [, kind, id] = match ?? []
  if (id === undefined || !idPattern.test(id)) return { kind: 'watcher' }
  return { kind: kind === 'device' ? 'device' : 'bridge', id }
}

/**
 * Whether this client may publish (or leave a will) there: under this fleet alone, a device under its own id, a bridge to
 * devices and on its own state.
 */
export function mayPublish(clientId: string, topic: string, fleet: string): boolean {
  const role = roleOf(clientId)
  const match = /^brim\/v1\/([^/]+)\/(device|bridge)\/([^/]+)\/([^/]+)$/.exec(topic)
  const [, named, side, id, leaf] = match ?? []
  if (named !== fleet || id === undefined || !idPattern.test(id)) return false
  switch (role.kind) {
    case 'device':
      return side === 'device' && id === role.id && deviceMayPublish.some((name) => name === leaf)
    case 'bridge':
      return side === 'bridge' ? id === role.id && leaf === 'state' : bridgeMayPublish.some((name) => name === leaf)
    case 'watcher':
      return false
    default:
      return role satisfies never
  }
}

/**
 * Whether this client may subscribe there: a device to what is said to it and to the bridges of this fleet, a bridge to all
 * of it. Who only watches may see everything; there are such only where nobody has to prove who they are.
 */
export function maySubscribe(clientId: string, filter: string, fleet: string): boolean {
  const role = roleOf(clientId)
  const match = /^brim\/v1\/([^/]+)\/(device|bridge)\/([^/]+)\/([^/]+)$/.exec(filter)
  const [, named, side, id, leaf] = match ?? []
  switch (role.kind) {
    case 'device':
      if (named !== fleet) return false
      if (side === 'bridge') return leaf === 'state' && id !== '#'
      return id === role.id && deviceMaySubscribe.some((name) => name === leaf)
    case 'bridge':
      return named === fleet
    case 'watcher':
      return true
    default:
      return role satisfies never
  }
}
