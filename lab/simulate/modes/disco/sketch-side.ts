import { Answer } from '../../world/answer.ts'
import type { AnswerRecord, AnswerWork } from '../../world/answer-record.ts'
import type { Mode } from '../../world/mode.ts'
import { type SimulatedDevice, transfer } from '../../world/simulated-device.ts'
import type { World } from '../../world/world.ts'
import { textBytes } from '../pice/text-bytes.ts'
import type { SimulatedRun, SimulatedSide } from './simulated-side.ts'

/** An answer that may be given up. Mutable. */
class GivableAnswer extends Answer {
  readonly #stops: (() => void)[] = []
  #isAbandoned = false

  override get isAbandoned(): boolean {
    return this.#isAbandoned
  }

  override workedOnBy(stop: () => void): void {
    this.#stops.push(stop)
  }

  abandon(): void {
    this.#isAbandoned = true
    for (const stop of this.#stops) stop()
  }
}

/**
 * The cloud, which answers in full or sketches what devices expand, as a side of one answer: it begins answers and does not go on with
 * those of others. Once stopped, its LLM writes no more; devices write the expansions that they have begun.
 */
export class SketchSide implements SimulatedSide {
  readonly #world: World
  readonly #mode: Mode
  readonly #device: SimulatedDevice
  readonly #answer: Answer
  #run: SimulatedRun | undefined
  #part: GivableAnswer | undefined

  constructor(world: World, mode: Mode, device: SimulatedDevice, answer: Answer) {
    this.#world = world
    this.#mode = mode
    this.#device = device
    this.#answer = answer
  }

  /** What it has cost so far; undefined: it was not asked. */
  get work(): AnswerWork | undefined {
    return this.#part?.work
  }

  start(run: SimulatedRun): void {
    this.#run = run
    const request = { ...this.#answer.request, promptTokens: run.contextTokens, outputTokens: run.tokens }
    const ended = ({ refusal }: AnswerRecord) => {
      if (refusal !== undefined && this.#run === run) run.failed()
    }
    const part = new GivableAnswer(request, this.#world.simulation, { first() {}, gap() {}, ended })
    part.carriedBy({
      carry: (tokens, arrived) =>
        transfer(this.#device, this.#answer, 'down', textBytes(tokens), () => {
          arrived()
          for (let at = 0; at < tokens && this.#run === run; at += 1) run.token()
        }),
    })
    this.#part = part
    transfer(this.#device, this.#answer, 'up', textBytes(run.contextTokens), () => {
      if (this.#run === run) this.#mode.begin(part)
    })
  }

  stop(): void {
    if (!this.#run) return
    this.#run = undefined
    const part = this.#part!
    if (!part.isOver) this.#world.simulation.after(this.#device.link.rttMs / 2, () => part.abandon())
  }
}
