import type { SharedDatabase } from '../../core/wire/protocol/http/devices.ts'

/** The part of a bridge with --database that makes safe what it stores. */
export interface PrimaryNode {
  /** Calls `send` once all that is stored now is in the database; in order. */
  after(send: () => void): void
  /** Resolves then. @throws BrimError DATABASE_UNAVAILABLE where that takes too long: whether it will be stored is not known */
  stored(): Promise<void>
  /** A later start of this bridge has published its state. */
  onNewerPrimary(): void
  /** For operators. */
  describe(): SharedDatabase
}
