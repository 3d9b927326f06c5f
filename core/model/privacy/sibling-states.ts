import { fromStates } from '../../wire/protocol/states.ts'
import type { Part, Sequence } from '../engine/contract.ts'
import type { Sending } from './observation.ts'

/** Tokens of one step. */
const maxRows = 256

/**
 * The states that the `input` part would give each of these tokens if it came next: rows of a tree, which see the sequence and
 * themselves. The sequence stays as it is.
 * @param limits.known what becomes of states on their way; absent: nothing
 * @returns for some tokens at a time the states, [tokens, width] row-major
 */
export async function* siblingStates(
  part: Part,
  sequence: Sequence,
  ids: readonly number[],
  { contextLimit, known }: { readonly contextLimit: number; readonly known?: Sending | undefined },
): AsyncGenerator<{ readonly ids: readonly number[]; readonly values: Float32Array }, void> {
  const { length } = sequence
  const count = Math.min(maxRows, contextLimit - length)
  for (let from = 0; from < ids.length; from += count) {
    const some = ids.slice(from, from + count)
    const [states] = await part.step([{ sequence, ids: some, parents: some.map(() => length - 1), select: 'all' }])
    sequence.truncate(length)
    yield { ids: some, values: fromStates(known ? known(states!, length) : states!) }
  }
}
