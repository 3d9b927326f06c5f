/** What a step of the cloud computes. */
export interface StepLoad {
  /** Rows of all its pieces. */
  readonly tokens: number
  /** Σ tokensᵢ · contextᵢ: positions that its rows attend to. */
  readonly attended: number
  /** Σ contextᵢ: positions of KV that it reads. */
  readonly cached: number
}

/** A stream's rows in a step. */
export interface StepPart {
  readonly rows: number
  /** Positions before them. */
  readonly contextLength: number
}

export function loadOf(pieces: readonly StepPart[]): StepLoad {
  let [tokens, attended, cached] = [0, 0, 0]
  for (const { rows, contextLength } of pieces) {
    tokens += rows
    // Rows of a prompt attend to those before them, too.
    attended += rows * (contextLength + rows / 2)
    cached += contextLength + rows
  }
  return { tokens, attended, cached }
}

/** Steps after which one counts half: what else the machine does changes within seconds. */
const halfLife = 20
const decay = 2 ** (-1 / halfLife)
/** A sample counts for at most this many times what was predicted: garbage collection, a neighbour. */
const outlierCap = 2
/** Errors beyond this part of the time weigh less than their square, as in Huber's loss. */
const usualError = 0.1
/** How much of what is known counts where the latest steps tell nothing. */
const ridge = 1e-3
const sweeps = 8
/** So many steps in a row that all took this many times as long as predicted, or as short: the machine as a whole has changed. */
const shift = { steps: 8, ratio: 1.5 }

const terms = ({ tokens, attended, cached }: StepLoad) => [1, tokens, attended, cached] as const
const dot = (a: readonly number[], b: readonly number[]): number => a.reduce((sum, value, at) => sum + value * b[at]!, 0)

/**
 * g of HAT Eq. 2: seconds of a step, a + b·tokens + c·Σ tokensᵢ·contextᵢ + d·Σ contextᵢ with coefficients ≥ 0, so that more work never
 * takes less time. The paper smooths one number. Learned from each step by weighted least squares that forget (errors relative to
 * the time), which coordinate descent solves from the coefficients before. Mutable.
 */
export class StepTime {
  /** a, b, c, d; empty before the first step. */
  #coefficients: number[] = []
  readonly #products = terms({ tokens: 0, attended: 0, cached: 0 }).map(() => [0, 0, 0, 0])
  readonly #targets = [0, 0, 0, 0]
  /** Steps in a row that were off by `shift.ratio` in one direction, and the sum of the logarithms of measured over predicted. */
  #off = { steps: 0, logs: 0 }

  /** In seconds; undefined before the first step. */
  at(load: StepLoad): number | undefined {
    return this.#coefficients.length === 0 ? undefined : dot(this.#coefficients, terms(load))
  }

  /** @throws RangeError unless the load has tokens, and all is finite and not negative */
  record(load: StepLoad, seconds: number): void {
    const x = terms(load)
    if (!(load.tokens > 0 && seconds >= 0 && x.every((term) => term >= 0) && Number.isFinite(dot(x, x) + seconds)))
      throw new RangeError(`no sample of a step: ${JSON.stringify(load)} in ${seconds} s`)
    // Of a clock that has not moved, nothing is learnt.
    if (seconds === 0) return
    const before = this.at(load)
    if (before) this.#follow(Math.log(seconds / before))
    const predicted = this.at(load)
    // One step tells nothing of the shape: half of it is taken for what every step costs.
    if (predicted === undefined) this.#coefficients = [seconds / 2, seconds / 2 / load.tokens, 0, 0]
    const y = predicted === undefined ? seconds : Math.min(seconds, outlierCap * predicted)
    const error = predicted === undefined ? 0 : Math.abs(y - predicted) / y
    const weight = Math.min(1, usualError / Math.max(error, usualError)) / y ** 2
    for (const [row, products] of this.#products.entries()) {
      for (const [column, value] of products.entries()) products[column] = decay * value + weight * x[row]! * x[column]!
      this.#targets[row] = decay * this.#targets[row]! + weight * x[row]! * y
    }
    this.#solve()
  }

  /** Least squares would take long to forget what a slower clock, a heat limit or a neighbour has ended. */
  #follow(log: number): void {
    const isOff = Math.abs(log) > Math.log(shift.ratio)
    const goesOn = isOff && Math.sign(log) === Math.sign(this.#off.logs)
    this.#off = goesOn
      ? { steps: this.#off.steps + 1, logs: this.#off.logs + log }
      : { steps: isOff ? 1 : 0, logs: isOff ? log : 0 }
    if (this.#off.steps < shift.steps) return
    const factor = Math.exp(this.#off.logs / this.#off.steps)
    for (const values of [this.#coefficients, this.#targets])
      for (const [at, value] of values.entries()) values[at] = factor * value
    this.#off = { steps: 0, logs: 0 }
  }

  #solve(): void {
    const before = [...this.#coefficients]
    const own = this.#coefficients
    for (let sweep = 0; sweep < sweeps; sweep += 1)
      for (const [at, products] of this.#products.entries()) {
        const kept = ridge * products[at]!
        const scale = products[at]! + kept
        if (scale === 0) continue
        const residual = this.#targets[at]! - dot(products, own) + kept * (before[at]! - own[at]!)
        own[at] = Math.max(0, own[at]! + residual / scale)
      }
  }
}
