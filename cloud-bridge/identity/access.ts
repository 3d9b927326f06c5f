import { keyRoles } from '../../core/wire/protocol/http/admin.ts'
import type { RequiredAccess as HttpAccess } from '../../core/wire/protocol/http/operation.ts'
import { mayPublish, maySubscribe, mayTell, mayWatch, roleOf } from './acl.ts'

/** What a client asks for, at the broker, on the WebSocket or by HTTP. */
export type AccessRequest =
  /** Wills too. `fleet`: that of the broker. */
  | { readonly to: 'publish'; readonly topic: string; readonly fleet: string }
  | { readonly to: 'subscribe'; readonly filter: string; readonly fleet: string }
  /** A message at the broker, received or published by a client with an API key. */
  | { readonly to: 'watch' | 'tell'; readonly topic: string; readonly fleet: string }
  /** The data plane, as this device. */
  | { readonly to: 'connect'; readonly device: string }
  /** The control plane, where a proof is required. */
  | { readonly to: 'join' }
  /** State of devices and bridge; bundles; jobs and commands; tokens, keys, approvals and the audit log. `ask`: answers of the bridge's models, for devices where the bridge allows it. */
  | { readonly to: Extract<HttpAccess, 'ask' | 'read' | 'fetch' | 'operate' | 'administer'> }

/** @param clientId as proven (`device-…`, `bridge-…`, `<role>-…`), or as claimed where no proof is required */
export function allows(clientId: string, access: AccessRequest): boolean {
  const role = roleOf(clientId)
  switch (access.to) {
    case 'publish':
      return mayPublish(clientId, access.topic, access.fleet)
    case 'subscribe':
      return maySubscribe(clientId, access.filter, access.fleet)
    case 'watch':
      return hasRole(clientId, 'viewer') && mayWatch(hasRole(clientId, 'operator'), access.topic, access.fleet)
    case 'tell':
      return hasRole(clientId, 'viewer') && mayTell(hasRole(clientId, 'operator'), access.topic, access.fleet)
    case 'connect':
      return role.kind === 'device' && role.id === access.device
    case 'join':
      return role.kind !== 'watcher'
    case 'ask':
      return role.kind === 'device' || clientId.startsWith('client-') || hasRole(clientId, 'operator')
    case 'read':
      return role.kind === 'bridge' || hasRole(clientId, 'viewer')
    case 'fetch':
      return role.kind === 'device' || allows(clientId, { to: 'read' })
    case 'operate':
      return role.kind === 'bridge' || hasRole(clientId, 'operator')
    case 'administer':
      return hasRole(clientId, 'admin')
    default:
      return access satisfies never
  }
}

/** Each includes the rights of those before it. */
const ranks = keyRoles.filter((role) => role !== 'client')

/** Whether the client id is that of a key (`viewer-…`) with this role or one above it. */
function hasRole(clientId: string, min: (typeof ranks)[number]): boolean {
  const rank = ranks.findIndex((role) => clientId.startsWith(`${role}-`))
  return rank >= ranks.indexOf(min)
}
