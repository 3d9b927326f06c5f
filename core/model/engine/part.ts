import { concatStates, type States } from '../../wire/protocol/states.ts'
import type { PartManifest, PartName } from '../bundle/manifest.ts'
import type { AttentionPart } from './attention-part.ts'
import type { Part, Sequence, StepItem } from './contract.ts'
import { type Cut, StatesReceiver } from './states-tensors.ts'

/** `input`, `middle`, `adapter` or `adapter-paper`: returns states, rounded to fp16 or in fp32. */
export class StatesPart implements Part {
  readonly #attention: AttentionPart
  readonly #receiver: StatesReceiver

  constructor(attention: AttentionPart) {
    this.#attention = attention
    this.#receiver = new StatesReceiver(attention.runtime, attention.dims.hidden)
  }

  get name(): PartName {
    return this.#attention.source.name
  }

  get manifest(): PartManifest {
    return this.#attention.source.manifest
  }

  createSequence(): Sequence {
    return this.#attention.createSequence()
  }

  step(items: readonly StepItem[]): Promise<States[]> {
    return this.run(items, 'half')
  }

  run(items: readonly StepItem[], cut: Cut): Promise<States[]> {
    return this.#attention.step(
      items,
      (rows) => this.#receiver.prepare(rows, cut),
      (pieces) => concatStates(pieces, this.#attention.dims.hidden),
    )
  }
}
