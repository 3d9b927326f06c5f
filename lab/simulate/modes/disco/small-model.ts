import { SmallModelUse } from '../../../../core/policy/disco/small-model-use.ts'
import { smallModelStepS } from '../../device/small-model-step.ts'
import type { TransformerShape } from '../../hardware/model-shape.ts'
import { workOf } from '../../hardware/roofline.ts'
import type { Answer } from '../../world/answer.ts'
import type { SimulatedDevice } from '../../world/simulated-device.ts'
import type { SimulatedRun, SimulatedSide } from './simulated-side.ts'

/** A device's small model: so many answers at once, the others in the order of their arrival. Mutable. */
export class SmallModel extends SmallModelUse {
  readonly device: SimulatedDevice
  readonly #shape: TransformerShape
  readonly #waiting = new Set<() => void>()

  /** @returns undefined: the device has none. */
  static of(device: SimulatedDevice, answersAtOnce: number): SmallModel | undefined {
    const [shape] = device.smallModels
    if (!shape) return undefined
    return new SmallModel(device, shape, answersAtOnce)
  }

  private constructor(device: SimulatedDevice, shape: TransformerShape, answersAtOnce: number) {
    super(answersAtOnce)
    this.device = device
    this.#shape = shape
  }

  /** Seconds to the first token. @param tokens of the prompt, and of the answer so far */
  prefillS(tokens: number): number {
    return smallModelStepS(this.device.board, this.#shape, { ...workOf(tokens, 0), chosen: 1 })
  }

  /** Seconds of one more token. @param context positions before it */
  decodeS(context: number): number {
    return smallModelStepS(this.device.board, this.#shape, { ...workOf(1, context), chosen: 1 })
  }

  /** @param begin called once it is this answer's turn @returns it has ended, or waits no longer */
  take(begin: () => void): () => void {
    const isFull = this.isFull
    const end = this.begin()
    if (isFull) this.#waiting.add(begin)
    else begin()
    return () => {
      end()
      if (this.#waiting.delete(begin)) return
      const [next] = this.#waiting
      if (next) {
        this.#waiting.delete(next)
        next()
      }
    }
  }
}

/** The small model as a side of one answer. Mutable. */
export class SmallModelSide implements SimulatedSide {
  readonly #model: SmallModel
  readonly #answer: Answer
  #run: SimulatedRun | undefined
  /** Tokens that are left to write. */
  #left = 0
  #end = () => {}
  #drop = () => {}

  constructor(model: SmallModel, answer: Answer) {
    this.#model = model
    this.#answer = answer
  }

  start(run: SimulatedRun): void {
    this.#run = run
    this.#left = run.tokens
    this.#end = this.#model.take(() => this.#step(this.#model.prefillS(run.contextTokens)))
  }

  pause(): void {
    this.#drop()
  }

  resume(): void {
    if (this.#run && this.#left > 0) this.#decode(this.#run)
  }

  stop(): void {
    if (!this.#run) return
    this.#run = undefined
    this.#drop()
    this.#end()
  }

  #decode({ contextTokens, tokens }: SimulatedRun): void {
    this.#step(this.#model.decodeS(contextTokens + tokens - this.#left))
  }

  #step(seconds: number): void {
    const { processor, energy } = this.#model.device
    const spent = (share: number) => {
      this.#answer.work.joules += energy.compute(seconds * share)
      this.#drop = () => {}
    }
    const drop = processor.run(seconds, () => {
      spent(1)
      this.#tokenDone()
    })
    // What it has computed in vain.
    this.#drop = () => spent(drop())
  }

  #tokenDone(): void {
    const run = this.#run!
    this.#left -= 1
    if (this.#left > 0) this.#decode(run)
    else {
      this.#run = undefined
      this.#end()
    }
    run.token()
  }
}
