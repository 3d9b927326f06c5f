import { mayPublish, maySubscribe, roleOf } from '../broker/acl.ts'

export type Access =
  /** Wills too. */
  | { readonly to: 'publish'; readonly topic: string }
  | { readonly to: 'subscribe'; readonly filter: string }
  /** The data plane, as this device. */
  | { readonly to: 'connect'; readonly device: string }
  /** What the bridge tells of its devices and its work. */
  | { readonly to: 'read' }
  /** Jobs: what they ask and what came of them, and new ones. */
  | { readonly to: 'submit' }
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
      return mayPublish(clientId, access.topic)
    case 'subscribe':
      return maySubscribe(clientId, access.filter)
    case 'connect':
      return role.kind === 'device' && role.id === access.device
    case 'read':
      return role.kind === 'bridge' || holds(clientId, 'reader') || holds(clientId, 'submitter')
    case 'submit':
      return role.kind === 'bridge' || holds(clientId, 'submitter')
    case 'join':
      return role.kind !== 'watcher'
    default:
      return access satisfies never
  }
}

/** What a key is good for. */
export const keyRoles = ['reader', 'submitter'] as const
export type KeyRole = (typeof keyRoles)[number]

const holds = (clientId: string, role: KeyRole): boolean => clientId.startsWith(`${role}-`)
