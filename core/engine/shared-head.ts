import { BrimError } from '../base/errors.ts'
import type { States } from '../protocol/states.ts'
import type { Head } from './contract.ts'

/** The output part, for any number of sessions at once. */
export interface SharedHead {
  /**
   * What `look` makes of each row's logits ([vocab], not to be kept).
   * @throws BrimError RUNTIME_FAILED when `look` finds NaN: the states that go in have been looked at before
   */
  read<T>(states: States, look: (logits: Float32Array, row: number) => T): Promise<T[]>
}

/** Logits are valid until the head's next call, so whoever reads them must be done before the next one calls. */
export function shareHead(head: Head, vocab: number): SharedHead {
  let last: Promise<unknown> = Promise.resolve()
  return {
    read(states, look) {
      const turn = last.then(async () => {
        const logits = await head.logits(states)
        return Array.from({ length: states.rows }, (_, row) => look(logits.subarray(row * vocab, (row + 1) * vocab), row))
      })
      last = turn.catch(() => {})
      return turn.catch((error: unknown) => {
        if (!(error instanceof BrimError) || error.code !== 'RUNTIME_FAILED') throw error
        throw new BrimError('RUNTIME_FAILED', `part "output": ${error.message}`, {
          cause: error,
          ...(error.hint === undefined ? {} : { hint: error.hint }),
        })
      })
    },
  }
}
