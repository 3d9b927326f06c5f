import type { Part, Sequence, StepItem } from '../../core/engine/contract.ts'
import type { States } from '../../core/protocol/states.ts'

export interface AlteredPart extends Part {
  /** KV bytes that its unreleased sequences hold. */
  heldBytes(): number
}

/** A real part with something done around its steps. */
export function alteredPart(
  part: Part,
  around: {
    before?: (items: readonly StepItem[]) => void
    returns?: (states: States) => States
    after?: (items: readonly StepItem[], returned: readonly States[]) => void
  },
): AlteredPart {
  const held = new Set<Sequence>()
  return {
    name: part.name,
    manifest: part.manifest,
    heldBytes: () => [...held].reduce((sum, sequence) => sum + sequence.bytes, 0),
    createSequence() {
      const sequence = part.createSequence()
      held.add(sequence)
      return sequence
    },
    async step(items) {
      around.before?.(items)
      const returned = (await part.step(items)).map(around.returns ?? ((states) => states))
      around.after?.(items, returned)
      return returned
    },
  }
}
