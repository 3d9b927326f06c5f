import type { SharedDatabase } from '../../core/wire/protocol/http/devices.ts'
import type { Upgrade } from '../http/server.ts'
import type { Grants } from '../identity/grants.ts'
import type { IdentityStore } from '../identity/store.ts'
import type { Middle } from './middle.ts'

/** The devices' links of one of several processes, whatever its role. */
export interface ProcessLinks {
  readonly middle: Middle
  readonly upgrade: Upgrade
  /** From now on, links are proven by these. */
  proveBy(grants: Grants, identities: Pick<IdentityStore, 'version' | 'approvedKeys' | 'keys' | 'keyOf'>): void
  /** Of one that sends its devices away. @returns resolves once none has a session here; undefined: no other process would serve them */
  untilMoved(): Promise<void> | undefined
}

/** The part of a bridge with --database that makes safe what it stores, and that serves devices. */
export interface PrimaryNode {
  /** Calls `send` once all that is stored now is in the database; in order. */
  after(send: () => void): void
  /** Resolves then. @throws BrimError DATABASE_UNAVAILABLE where that takes too long: whether it will be stored is not known */
  stored(): Promise<void>
  /** A later start of this bridge has published its state. */
  onNewerPrimary(): void
  /** For operators. */
  describe(): SharedDatabase
  /** A process is to send its devices away and to take no lease, or no longer. @throws BrimError REQUEST_INVALID */
  setDraining(node: string, isDraining: boolean): Promise<void>
  readonly links: ProcessLinks
}

/** HAT sessions of a bridge. @param own of this process, where it is the only one */
export const sessionsOf = (node: Pick<PrimaryNode, 'describe'> | undefined, own: number): number =>
  node ? node.describe().loads.reduce((sum, { sessions }) => sum + sessions, 0) : own
