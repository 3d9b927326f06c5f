import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { writePrivate } from '../../core/kit/base/private-file.ts'
import type { TrialState } from '../../core/policy/trial/trial.ts'
import { TrialQuestion } from '../../core/wire/protocol/jobs.ts'

/** The state of trials on disk; one that cannot be read counts as empty, so that the device starts all the same. */
export class TrialFile<T> {
  readonly #path: string
  readonly #schema
  #state: TrialState<T>

  /** @param change schema of a change */
  constructor(path: string, change: z.ZodType<T>) {
    this.#path = path
    const trial = z.object({
      change,
      job: z.string(),
      starts: z.int(),
      probe: TrialQuestion.optional(),
      problem: z.string().optional(),
    })
    this.#schema = z.object({
      kept: change.optional(),
      trial: trial.optional(),
      last: trial.omit({ starts: true, probe: true }).optional(),
    })
    this.#state = this.#read()
  }

  get state(): TrialState<T> {
    return this.#state
  }

  /** On disk on return. @throws BrimError TARGET_UNWRITABLE */
  set(state: TrialState<T>): TrialState<T> {
    if (state !== this.#state) writePrivate(this.#path, `${JSON.stringify({ v: 1, ...state })}\n`)
    this.#state = state
    return state
  }

  #read(): TrialState<T> {
    try {
      return this.#schema.parse(JSON.parse(readFileSync(this.#path, 'utf8'))) as TrialState<T>
    } catch {
      return {}
    }
  }
}
