import type { Sampling } from '../engine/sampler.ts'
import { DrafterChoice } from '../policy/hat/drafter-choice.ts'
import type { Drafter } from './drafter.ts'

export interface MeasuredChoice {
  readonly drafter: Drafter
  /** Whether it drafts ahead during verifications: a drafter may be one choice with it and one without. */
  readonly draftsAhead: boolean
}

/** Drafts with the fastest of several drafters, as measured; with the first until that is known. Sessions learn from earlier ones. */
export class MeasuredDrafters {
  readonly #create: (sampling: Sampling) => Readonly<Record<string, MeasuredChoice>>
  /** The measurements that the next session begins with. */
  #before: DrafterChoice | undefined

  /** @param create the drafters of one session; their names are always the same */
  constructor(create: (sampling: Sampling) => Readonly<Record<string, MeasuredChoice>>) {
    this.#create = create
  }

  create(sampling: Sampling): Drafter {
    const choices = this.#create(sampling)
    const drafters = [...new Set(Object.values(choices).map(({ drafter }) => drafter))]
    const choice = new DrafterChoice(Object.keys(choices), this.#before)
    return {
      get mayDraftAhead() {
        return choices[choice.name]!.draftsAhead
      },
      next: (known, rows) => choices[choice.name]!.drafter.next(known, rows),
      async catchUp(known) {
        for (const drafter of drafters) await drafter.catchUp(known)
      },
      gather(keep, rows) {
        for (const drafter of drafters) drafter.gather(keep, rows)
      },
      roundEnded: (tokens, seconds) => choice.record(tokens, seconds),
      report: () => ({ chosen: choice.best, drafters: choice.records() }),
      release: () => {
        // Of concurrent sessions the one with the most measurements counts.
        if (!this.#before || choice.measured > this.#before.measured) this.#before = choice
        for (const drafter of drafters) drafter.release()
      },
    }
  }
}
