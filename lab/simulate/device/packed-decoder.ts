import { packSequences } from '../../../core/policy/pice/pack-sequences.ts'
import type { TransformerShape } from '../hardware/model-shape.ts'
import { addWork, noWork, type StepWork, workOf } from '../hardware/roofline.ts'
import type { SimulatedDevice } from '../world/simulated-device.ts'
import { smallModelStepS } from './small-model-step.ts'

/** The most steps in one event, where no reader waits for each token: other work may use the device in between. */
const stepsAtOnce = 16

/** A prompt, and what the model writes after it; another part may follow in the same context. */
export interface SequencePart {
  /** That are not in the context yet, >= 1. */
  readonly promptTokens: number
  /** 0: the prompt alone is computed. */
  readonly outputTokens: number
}

export interface SequenceOptions {
  /** Positions that are copied from another sequence. */
  readonly copiedTokens: number
  /** At least one. */
  readonly parts: readonly SequencePart[]
  /** Whether each token is wanted at once. */
  readonly streams: boolean
  /** More tokens of a part are written. */
  wrote?(tokens: number): void
  partEnded?(part: number): void
  /** Its share of what a step has cost. */
  spent(joules: number): void
}

interface Sequence {
  readonly options: SequenceOptions
  context: number
  part: number
  promptLeft: number
  written: number
}

export interface DecoderFigures {
  readonly steps: number
  /** Sequences of all steps. */
  readonly sequences: number
  readonly promptTokens: number
  readonly outputTokens: number
}

/**
 * A small model on a device that decodes several sequences in packed steps, as the agent does: those that go on at the same time
 * share the cost of reading the weights. Further ones wait. Steps take turns with whatever else the device computes. Mutable.
 */
export class PackedDecoder {
  readonly #device: SimulatedDevice
  readonly #shape: TransformerShape
  readonly #maxSequences: number
  readonly #waiting: Sequence[] = []
  #running: Sequence[] = []
  #isBusy = false
  #figures = { steps: 0, sequences: 0, promptTokens: 0, outputTokens: 0 }

  /** @param maxSequences of a step */
  constructor(device: SimulatedDevice, shape: TransformerShape, maxSequences: number) {
    this.#device = device
    this.#shape = shape
    this.#maxSequences = maxSequences
  }

  get figures(): DecoderFigures {
    return this.#figures
  }

  /** Sequences that are decoded or wait. */
  get load(): number {
    return this.#running.length + this.#waiting.length
  }

  /** @returns drops it: nothing more is called */
  add(options: SequenceOptions): () => void {
    const { promptTokens } = options.parts[0]!
    const sequence = { options, context: options.copiedTokens, part: 0, promptLeft: promptTokens, written: 0 }
    this.#waiting.push(sequence)
    this.#step()
    return () => {
      this.#running = this.#running.filter((each) => each !== sequence)
      const at = this.#waiting.indexOf(sequence)
      if (at >= 0) this.#waiting.splice(at, 1)
    }
  }

  #step(): void {
    if (this.#isBusy) return
    while (this.#running.length < this.#maxSequences && this.#waiting.length > 0) this.#running.push(this.#waiting.shift()!)
    const taken = this.#running
    if (taken.length === 0) return
    this.#isBusy = true
    const steps = taken.some(({ promptLeft }) => promptLeft > 0) ? 1 : Math.min(...taken.map(stepsOf))
    const rows = packSequences(taken.map(waitingRowsOf), taken.length).map((packed) => packed.rows)
    const seconds = steps * this.#stepS(taken, rows, steps)
    const { processor, energy } = this.#device
    processor.run(seconds, () => {
      const joules = energy.compute(seconds) / taken.length
      this.#figures.steps += steps
      this.#figures.sequences += steps * taken.length
      for (const [at, sequence] of taken.entries()) {
        // A sequence that was dropped meanwhile has cost its share, too, but yields no tokens.
        if (this.#running.includes(sequence)) this.#advance(sequence, rows[at]!, steps, joules)
      }
      // What the ends of parts have added is in the next step.
      this.#isBusy = false
      this.#step()
    })
  }

  /** Of one of so many equal steps, at their mean contexts. */
  #stepS(taken: readonly Sequence[], rows: readonly number[], steps: number): number {
    let work: StepWork = noWork
    let chosen = 0
    for (const [at, { context, promptLeft, options, part }] of taken.entries()) {
      work = addWork(work, workOf(rows[at]!, context + (steps - 1) / 2))
      if (promptLeft <= rows[at]! && options.parts[part]!.outputTokens > 0) chosen += 1
    }
    return smallModelStepS(this.#device.board, this.#shape, { ...work, chosen })
  }

  #advance(sequence: Sequence, rows: number, steps: number, joules: number): void {
    const { options } = sequence
    const part = options.parts[sequence.part]!
    options.spent(joules)
    let tokens = 0
    if (sequence.promptLeft > 0) {
      sequence.promptLeft -= rows
      sequence.context += rows
      this.#figures.promptTokens += rows
      // The last row of a prompt gives the first token.
      if (sequence.promptLeft === 0) tokens = Math.min(1, part.outputTokens)
    } else {
      sequence.context += steps
      tokens = steps
    }
    sequence.written += tokens
    this.#figures.outputTokens += tokens
    const isComplete = sequence.promptLeft === 0 && sequence.written >= part.outputTokens
    const ended = sequence.part
    if (isComplete) this.#next(sequence)
    if (tokens > 0) options.wrote?.(tokens)
    if (isComplete) options.partEnded?.(ended)
  }

  #next(sequence: Sequence): void {
    sequence.part += 1
    sequence.written = 0
    const next = sequence.options.parts[sequence.part]
    if (next) sequence.promptLeft = next.promptTokens
    else this.#running = this.#running.filter((each) => each !== sequence)
  }
}

const waitingRowsOf = ({ promptLeft }: Sequence, id: number) =>
  promptLeft > 0
    ? ({ id, waitingRows: promptLeft, phase: 'prefill' } as const)
    : ({ id, waitingRows: 1, phase: 'decode' } as const)

/** Decode steps until the sequence needs something else. */
function stepsOf({ options, part, written }: Sequence): number {
  return options.streams ? 1 : Math.min(stepsAtOnce, options.parts[part]!.outputTokens - written)
}
