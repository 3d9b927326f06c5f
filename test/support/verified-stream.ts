import { DeviceStream } from '../../core/model/draft/device-stream.ts'
import { StateRows } from '../../core/model/draft/state-rows.ts'
import type { Part } from '../../core/model/engine/contract.ts'
import type { LoadedModel } from '../../core/model/engine/open-model.ts'
import { type States, sliceStates } from '../../core/wire/protocol/states.ts'

/** The steps of a HAT session without a bridge: feeds tokens, verifies drafts, returns deep states. */
export interface VerifiedStream extends Disposable {
  readonly known: DeviceStream
  /** Feeds the pending token, which must follow the verified ones, or drafted tokens. */
  feed(tokens: readonly number[]): Promise<void>
  /** Computes the deep states of all fed positions, and drops all positions from `length` on. */
  verify(length: number): Promise<void>
}

/** With `prompt` prefilled and its last deep state computed. @param onPrefill runs before that deep state exists */
export async function verifiedStream(
  model: LoadedModel,
  prompt: readonly number[],
  onPrefill: (known: DeviceStream) => Promise<void> = async () => {},
): Promise<VerifiedStream> {
  const { hidden } = model.manifest.dims
  const middle = model.part('middle')
  const sequence = middle.createSequence()
  const known = new DeviceStream(model.part('input'), hidden, prompt.length)
  const deepen = async (select: 'last' | 'all') => {
    const states = known.shallow.slice(sequence.length, known.shallow.length)
    const [deep] = await middle.step([{ sequence, states, select }])
    known.deep.append(deep!)
  }
  await known.feed(prompt)
  await onPrefill(known)
  await deepen('last')
  return {
    known,
    feed: (tokens) => known.feed(tokens),
    async verify(length) {
      await deepen('all')
      known.gather(length, [])
      sequence.truncate(length)
    },
    [Symbol.dispose]() {
      known.release()
      sequence.release()
    },
  }
}

/** All rows of a new sequence. */
export async function freshRows(part: Part, states: States, features?: States): Promise<States> {
  const sequence = part.createSequence()
  try {
    const [rows] = await part.step([{ sequence, states, select: 'all', ...(features ? { features } : {}) }])
    return rows!
  } finally {
    sequence.release()
  }
}

/** The row before each of the stream's positions; zeros where it is unknown. */
export function rowsBefore(deep: StateRows, length: number): States {
  const zeros = new StateRows(deep.width)
  const { width } = deep
  zeros.append({ rows: deep.first + 1, width, half: new Uint16Array((deep.first + 1) * width) })
  zeros.append(deep.slice(deep.first, deep.length))
  return sliceStates(zeros.slice(0, zeros.length), 0, length)
}
