import type { Sequence } from '../../core/model/engine/contract.ts'

/** KV whose token ids are known. */
export interface TokenPrefix {
  readonly sequence: Sequence
  /** Of its positions, and perhaps of some that follow. */
  readonly ids: readonly number[]
  /** Undefined where an open stream holds it. */
  readonly handle?: string | undefined
}

/** A prefix, and how many of its leading positions are shared. */
export interface FoundPrefix {
  readonly prefix: TokenPrefix
  readonly length: number
}

/** The first of those that share most leading positions with these ids, and how many; undefined where none shares any. */
export function longestPrefix(prefixes: Iterable<TokenPrefix>, ids: readonly number[]): FoundPrefix | undefined {
  let best: FoundPrefix | undefined
  for (const prefix of prefixes) {
    const length = sharedLength(prefix, ids)
    if (length > (best?.length ?? 0)) best = { prefix, length }
  }
  return best
}

const sharedLength = ({ sequence, ids: own }: TokenPrefix, ids: readonly number[]) =>
  Math.min(sequence.length, sharedIds(own, ids))

/** With how many ids both begin. */
export function sharedIds(a: readonly number[], b: readonly number[]): number {
  let length = 0
  while (length < b.length && a[length] === b[length]) length++
  return length
}
