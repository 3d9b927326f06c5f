import { BrimError } from '../../../kit/base/errors.ts'
import type { Architecture } from '../architecture.ts'

/** Reads config.json of one model family. A new family is one file and one line in index.ts. */
export interface Family {
  /** Values of `architectures` in config.json that belong to this family. */
  readonly architectures: readonly string[]
  /** @throws BrimError ARCHITECTURE_UNSUPPORTED, CHECKPOINT_INVALID */
  read(config: unknown): Architecture
}

export function unsupported(what: string): BrimError {
  return new BrimError('ARCHITECTURE_UNSUPPORTED', `config.json: Brim does not support ${what}`)
}
