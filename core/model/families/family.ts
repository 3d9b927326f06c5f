import type { Architecture } from '../architecture.ts'

/** A kind of checkpoint: how its config.json becomes an architecture. A new family is one file and one line in index.ts. */
export interface Family {
  readonly name: string
  /** `architectures` of config.json that it reads. */
  readonly architectures: readonly string[]
  /** @throws BrimError ARCHITECTURE_UNSUPPORTED, CHECKPOINT_INVALID */
  read(config: unknown): Architecture
}
