import type { Drafter } from '../../core/model/draft/drafter.ts'
import type { RowConstraint } from '../../core/model/draft/row-constraint.ts'
import type { Sampling } from '../../core/model/engine/sampler.ts'
import { DrafterChoice } from '../../core/policy/hat/drafter-choice.ts'

export interface MeasuredChoice {
  readonly drafter: Drafter
  /** Whether it drafts ahead during verifications. A drafter may be a choice with it and another without it. */
  readonly draftsAhead: boolean
}

type CreateChoices = (sampling: Sampling, constraint?: RowConstraint) => Readonly<Record<string, MeasuredChoice>>

/**
 * Drafts with the fastest of several drafters, as measured, and with the first one until there are measurements. A session
 * starts with the measurements of earlier ones.
 */
export class MeasuredDrafters {
  readonly #create: CreateChoices
  /** The measurements with which the next session starts. */
  #previous: DrafterChoice | undefined

  /** @param create the drafters of one session; their names are always the same */
  constructor(create: CreateChoices) {
    this.#create = create
  }

  create(sampling: Sampling, constraint?: RowConstraint): Drafter {
    const choices = this.#create(sampling, constraint)
    const drafters = [...new Set(Object.values(choices).map(({ drafter }) => drafter))]
    const choice = new DrafterChoice(Object.keys(choices), this.#previous)
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
        // Of concurrent sessions, the one with the most measurements is retained.
        if (!this.#previous || choice.measured > this.#previous.measured) this.#previous = choice
        for (const drafter of drafters) drafter.release()
      },
    }
  }
}
