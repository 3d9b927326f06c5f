import type { Part, Sequence, StepItem } from '../../core/model/engine/contract.ts'
import type { States } from '../../core/wire/protocol/states.ts'

export interface AlteredPart extends Part {
  /** KV bytes of its unreleased sequences. */
  usedBytes(): number
}

/** A real part with hooks around its steps. */
export function alteredPart(
  part: Part,
  around: {
    before?: (items: readonly StepItem[]) => void
    returns?: (states: States) => States
    after?: (items: readonly StepItem[], returned: readonly States[]) => void
  },
): AlteredPart {
  const open = new Set<Sequence>()
  return {
    name: part.name,
    manifest: part.manifest,
    usedBytes: () => [...open].reduce((sum, sequence) => sum + sequence.bytes, 0),
    createSequence() {
      const sequence = part.createSequence()
      open.add(sequence)
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
