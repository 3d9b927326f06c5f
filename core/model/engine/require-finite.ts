import { BrimError } from '../../kit/base/errors.ts'
import { firstNonFiniteRow, type States } from '../../wire/protocol/states.ts'
import type { PartName } from '../bundle/manifest.ts'
import type { Part, StepItem } from './contract.ts'

/** @returns the same states. @throws BrimError RUNTIME_FAILED naming the part that returned NaN or infinity */
export function requireFinite(states: States, part: PartName): States {
  const row = firstNonFiniteRow(states)
  if (row === undefined) return states
  throw new BrimError('RUNTIME_FAILED', `part "${part}" returned NaN or infinity in row ${row} of ${states.rows}`, {
    hint: 'run "brim model verify" on the bundle, on this machine and at the bridge',
  })
}

/** Runs a step of one item. @throws BrimError as `Part.step`, and as `requireFinite` */
export async function stepOnce(part: Part, item: StepItem): Promise<States> {
  const [states] = await part.step([item])
  if (!states) throw new Error('a step of one item returned no states')
  return requireFinite(states, part.name)
}
