import type { Sampling } from '../engine/sampler.ts'
import { DrafterChoice } from '../policy/hat/drafter-choice.ts'
import type { Drafter } from './drafter.ts'

export interface MeasuredChoice {
  readonly drafter: Drafter
  /** Whether it drafts on while a verification is away; it may be a choice of its own with and without. */
  readonly ahead: boolean
}

/** Drafts by whichever of these is fastest, session after session; the first until that is known. */
export class MeasuredDrafters {
  readonly #create: (sampling: Sampling) => Readonly<Record<string, MeasuredChoice>>
  /** Of the session that ended last. */
  #before: DrafterChoice | undefined

  /** @param create drafters of one session; the names are always the same */
  constructor(create: (sampling: Sampling) => Readonly<Record<string, MeasuredChoice>>) {
    this.#create = create
  }

  /** For one session. */
  create(sampling: Sampling): Drafter {
    const choices = this.#create(sampling)
    const drafters = [...new Set(Object.values(choices).map(({ drafter }) => drafter))]
    const choice = new DrafterChoice(Object.keys(choices), this.#before)
    return {
      get ahead() {
        return choices[choice.name]!.ahead
      },
      next: (known, rows) => choices[choice.name]!.drafter.next(known, rows),
      async catchUp(known) {
        for (const drafter of drafters) await drafter.catchUp(known)
      },
      gather(keep, rows) {
        for (const drafter of drafters) drafter.gather(keep, rows)
      },
      ended: (tokens, seconds) => choice.record(tokens, seconds),
      report: () => ({ chosen: choice.best, drafters: choice.records() }),
      release: () => {
        // Of sessions side by side the one counts that has learned the most.
        if (!this.#before || choice.measured > this.#before.measured) this.#before = choice
        for (const drafter of drafters) drafter.release()
      },
    }
  }
}
