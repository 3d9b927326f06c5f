import { bestForecast, type Forecast } from './forecast.ts'

/** One of several remote endpoints that could make an answer. */
export interface RemoteOption {
  readonly forecast: Forecast
  /** Whether it has stopped answering. */
  readonly isSilent: boolean
}

/** Answers after which a way that was not chosen is asked again: it may have become better. */
const asksBetweenTrials = { known: 64, unknown: 8 }
/** Answers for which one that has failed is not asked, as long as there is another. */
const restAsks = 8

/**
 * Chooses the remote side of answers that several could make, and tries each of them now and then, as nothing is learnt of a way that is
 * never asked. Mutable.
 */
export class RemoteChoice {
  #asks = 0
  /** Numbers of the last answers that each was asked for, and failed to begin, by name. */
  readonly #asked = new Map<string, number>()
  readonly #failed = new Map<string, number>()

  /** @param options at least one, those to be preferred first. @returns its place */
  choose(options: readonly RemoteOption[]): number {
    const chosen = options.length === 1 ? options[0]! : this.#choose(options)
    this.#asks += 1
    this.#asked.set(chosen.forecast.name, this.#asks)
    return options.indexOf(chosen)
  }

  /** One that was asked has failed before its first token. */
  failed(name: string): void {
    this.#failed.set(name, this.#asks)
  }

  #choose(options: readonly RemoteOption[]): RemoteOption {
    const working = options.filter((option) => !option.isSilent && !this.#isResting(option))
    const among = working.length > 0 ? working : options
    const known = among.filter(({ forecast }) => forecast.isKnown)
    // What is unknown has no forecast to be the best by.
    const best = known.length > 0 ? known[bestForecast(known.map(({ forecast }) => forecast))]! : among[0]!
    const due = this.#asks > 0 ? options.find((option) => option !== best && this.#isDue(option)) : undefined
    return due ?? best
  }

  #isDue(option: RemoteOption): boolean {
    if (this.#isResting(option)) return false
    const { name, isKnown } = option.forecast
    const last = this.#asked.get(name)
    const { known, unknown } = asksBetweenTrials
    return this.#asks - (last ?? (isKnown ? 0 : -unknown)) >= (isKnown ? known : unknown)
  }

  #isResting({ forecast }: RemoteOption): boolean {
    const failed = this.#failed.get(forecast.name)
    return failed !== undefined && this.#asks - failed < restAsks
  }
}
