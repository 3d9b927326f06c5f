import { defaultAlpha, Ewma } from './ewma.ts'
import { type StepLoad, StepTime } from './step-time.ts'

/** g as a line: seconds of a step of x tokens with the contexts of the latest steps are `baseS` + x · `tokenS`. */
export interface StepLine {
  readonly baseS: number
  readonly tokenS: number
}

/** A step of the cloud, as HAT's decisions count it. */
export interface MonitoredStep extends StepLoad {
  /** Beside the rows of one prompt, where it has any: what a device that sends a prompt shares its steps with. */
  readonly besidePrompt: number
}

/** The cloud's state as HAT's decisions read it (HAT 'State monitoring', Eq. 1 and 2). Mutable. */
export class StateMonitor {
  /** g of Eq. 2. The delay belongs to each batch, not to the smoothed one. */
  readonly g = new StepTime()
  readonly #batchTokens: Ewma
  readonly #cached: Ewma
  readonly #contextOfToken: Ewma

  /** @param alpha α of Eq. 1, 0..1 */
  constructor(alpha = defaultAlpha) {
    this.#batchTokens = new Ewma(alpha)
    this.#cached = new Ewma(alpha)
    this.#contextOfToken = new Ewma(alpha)
  }

  /** μ of Eq. 1: smoothed tokens per cloud step, without the chunks of the prompt that asks; 0 before the first step. */
  get batchTokens(): number {
    return this.#batchTokens.value ?? 0
  }

  /** Undefined before the first step. */
  get line(): StepLine | undefined {
    const [cached, context] = [this.#cached.value, this.#contextOfToken.value]
    if (cached === undefined || context === undefined) return undefined
    const at = (tokens: number) => this.g.at({ tokens, attended: tokens * context, cached })
    const baseS = at(0)
    return baseS === undefined ? undefined : { baseS, tokenS: at(1)! - baseS }
  }

  /** @param delayS measured seconds of the step, through all stages of the pipeline */
  record(step: MonitoredStep, delayS: number): void {
    this.g.record(step, delayS)
    this.#batchTokens.record(step.besidePrompt)
    this.#cached.record(step.cached)
    this.#contextOfToken.record(step.attended / step.tokens)
  }
}
