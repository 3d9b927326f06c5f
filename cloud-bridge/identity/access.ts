import { mayPublish, maySubscribe, roleOf } from './acl.ts'

export type Access =
  /** Wills too; `fleet`: the one that the broker is of. */
  | { readonly to: 'publish'; readonly topic: string; readonly fleet: string }
  | { readonly to: 'subscribe'; readonly filter: string; readonly fleet: string }
  /** The data plane, as this device. */
  | { readonly to: 'connect'; readonly device: string }
  /** What the bridge tells of its devices and its work. */
  | { readonly to: 'read' }
  /** Bundles: devices too. */
  | { readonly to: 'fetch' }
  /** Jobs (what they ask, what came of them, new ones) and all else that devices are told to do. */
  | { readonly to: 'operate' }
  /** Who may do what: tokens, keys, devices let in or kept out, the audit log. */
  | { readonly to: 'administer' }
  /** The control plane, where a proof is asked for. */
  | { readonly to: 'join' }

/**
 * What a client may do, wherever it asks: at the broker, on the WebSocket, by HTTP.
 * @param clientId as proven (`device-…`, `bridge-…`), or as said where nobody is asked for a proof
 */
export function allows(clientId: string, access: Access): boolean {
  const role = roleOf(clientId)
  switch (access.to) {
    case 'publish':
      return mayPublish(clientId, access.topic, access.fleet)
    case 'subscribe':
      return maySubscribe(clientId, access.filter, access.fleet)
    case 'connect':
      return role.kind === 'device' && role.id === access.device
    case 'read':
      return role.kind === 'bridge' || holds(clientId, 'viewer')
    case 'fetch':
      return role.kind === 'device' || allows(clientId, { to: 'read' })
    case 'operate':
      return role.kind === 'bridge' || holds(clientId, 'operator')
    case 'administer':
      return holds(clientId, 'admin')
    case 'join':
      return role.kind !== 'watcher'
    default:
      return access satisfies never
  }
}

/** What a key is good for: each may do what those before it may. */
export const keyRoles = ['viewer', 'operator', 'admin'] as const
export type KeyRole = (typeof keyRoles)[number]

/** Whether that is the holder of a key (`viewer-…`) with this role, or more. */
function holds(clientId: string, least: KeyRole): boolean {
  const rank = keyRoles.findIndex((role) => clientId.startsWith(`${role}-`))
  return rank >= keyRoles.indexOf(least)
}
