import { BrimError } from '../../kit/base/errors.ts'
import type { States } from '../../wire/protocol/states.ts'
import type { Head } from './contract.ts'
import { SerialQueue } from './serial-queue.ts'

/** The output part, shared by concurrent callers. */
export interface SharedHead {
  /**
   * Calls `look` with the logits of each row ([vocab], valid only during the call) and returns the results.
   * @throws BrimError RUNTIME_FAILED naming the output part, also if `look` finds NaN
   */
  read<T>(states: States, look: (logits: Float32Array, row: number) => T): Promise<T[]>
}

/** More is not kept between calls: a bridge reads one row of logits for each stream of a step. */
const maxKeptBytes = 32 * 2 ** 20

/** Calls are serialised, because logits are valid only until the head's next call. */
export function shareHead(head: Head, vocab: number): SharedHead {
  const queue = new SerialQueue()
  // New memory for every step would make V8 collect the whole heap every few seconds.
  let memory: ArrayBuffer | undefined
  return {
    read(states, look) {
      const reading = queue.run(async () => {
        const logits = await head.logits(states, memory)
        if (logits.buffer.byteLength <= maxKeptBytes) memory = logits.buffer
        return Array.from({ length: states.rows }, (_, row) => look(logits.subarray(row * vocab, (row + 1) * vocab), row))
      })
      return reading.catch((error: unknown) => {
        if (!(error instanceof BrimError) || error.code !== 'RUNTIME_FAILED') throw error
        throw new BrimError('RUNTIME_FAILED', `part "output": ${error.message}`, {
          cause: error,
          hint: error.hint,
        })
      })
    },
  }
}
