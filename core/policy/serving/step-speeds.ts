import { Ewma } from '../estimate/ewma.ts'
import { type MonitoredStep, StateMonitor } from '../estimate/state-monitor.ts'
import { loadOf, type StepPart } from '../estimate/step-time.ts'
import type { Phase, ServingSpeeds } from './policy.ts'

/** A step that has ended. */
export interface MeasuredStep {
  readonly streams: number
  readonly rows: number
  /** Of the rows. */
  readonly promptRows: number
  readonly seconds: number
}

interface MeasuredPart extends StepPart {
  readonly phase: Phase
}

/** How fast steps are, learned from those that have ended. Mutable. */
export class StepSpeeds {
  /** The same steps, as HAT's decisions read them. */
  readonly monitor = new StateMonitor()
  /** Seconds of the steps that only decoded or verified, by their streams. */
  readonly #decodeSeconds = new Map<number, Ewma>()
  readonly #prefillSPerRow = new Ewma()

  /** @param pieces of the step; absent: unknown, as it was computed in parts */
  record({ streams, rows, promptRows, seconds }: MeasuredStep, pieces?: readonly MeasuredPart[]): void {
    if (pieces) this.monitor.record(monitored(pieces), seconds)
    if (!(seconds > 0)) return
    if (promptRows === 0) {
      const average = this.#decodeSeconds.get(streams) ?? new Ewma()
      average.record(seconds)
      this.#decodeSeconds.set(streams, average)
    } else if (2 * promptRows >= rows) this.#prefillSPerRow.record(seconds / rows)
  }

  /** Predicted time of a step with the contexts of the latest ones; undefined before the first. */
  secondsOf(rows: number): number | undefined {
    const { line } = this.monitor
    return (line && line.baseS + rows * line.tokenS) || undefined
  }

  /** Predicted time of this step; undefined before the first. */
  secondsFor(pieces: readonly MeasuredPart[]): number | undefined {
    return this.monitor.g.at(loadOf(pieces)) || undefined
  }

  /**
   * Γ of TokenFlow Eq. 6 is what the streams could get together: a token each in every step, at the number of streams at which
   * that is most. An average of the tokens produced would follow the demand instead.
   */
  get speeds(): Pick<ServingSpeeds, 'tokensPerS' | 'prefillSPerRow'> {
    let tokensPerS: number | undefined
    for (const [streams, { value }] of this.#decodeSeconds)
      if (value !== undefined) tokensPerS = Math.max(tokensPerS ?? 0, streams / value)
    return { tokensPerS, prefillSPerRow: this.#prefillSPerRow.value }
  }
}

function monitored(pieces: readonly MeasuredPart[]): MonitoredStep {
  const load = loadOf(pieces)
  const prompts = pieces.filter(({ phase }) => phase === 'prefill')
  const promptRows = prompts.reduce((sum, { rows }) => sum + rows, 0)
  return { ...load, besidePrompt: load.tokens - (prompts.length > 0 ? promptRows / prompts.length : 0) }
}
