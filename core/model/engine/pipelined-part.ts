import type { States } from '../../wire/protocol/states.ts'
import type { PartManifest, PartName } from '../bundle/manifest.ts'
import type { Sequence, StepItem } from './contract.ts'
import type { CuttingPart } from './part.ts'
import { StackedSequence } from './stacked-sequence.ts'
import type { Cut } from './states-tensors.ts'

/**
 * A part whose layers run as successive stages. Steps of different sequences may overlap: while one is in the second stage,
 * the next may be in the first. States between stages are fp32, so results equal the unsplit part's bit for bit.
 */
export class PipelinedPart implements CuttingPart {
  /** The manifest of the unsplit part. */
  readonly manifest: PartManifest
  readonly #stages: readonly CuttingPart[]

  /** @param stages at least one */
  constructor(manifest: PartManifest, stages: readonly CuttingPart[]) {
    this.manifest = manifest
    this.#stages = stages
  }

  get name(): PartName {
    return this.#stages[0]!.name
  }

  createSequence(): Sequence {
    return new StackedSequence(this.#stages.map((stage) => stage.createSequence()))
  }

  step(items: readonly StepItem[]): Promise<States[]> {
    return this.run(items, 'half')
  }

  run(items: readonly StepItem[], cut: Cut): Promise<States[]> {
    const sequences = items.map(({ sequence }) => sequence)
    return StackedSequence.step(sequences, this.name, async (stacks) => {
      let arriving = items
      let states: States[] = []
      for (const [at, stage] of this.#stages.entries()) {
        const isLast = at === this.#stages.length - 1
        const own = arriving.map((item, i): StepItem => {
          const sequence = stacks[i]!.parts[at]!
          // Rows attend to all rows before them, so only the last stage may omit rows.
          return isLast ? { ...item, sequence } : { ...item, sequence, select: 'all' }
        })
        states = await stage.run(own, isLast ? cut : 'full')
        arriving = items.map((item, i) => ({ ...item, states: states[i]! }))
      }
      return states
    })
  }
}
