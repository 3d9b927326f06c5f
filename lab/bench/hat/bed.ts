import type { Io } from '../../../core/base/io.ts'
import type { Cores } from '../../cluster/cores.ts'
import type { BenchPrompt } from '../prompts.ts'
import type { LinkConditions } from './links.ts'
import type { UncheckedAnswer } from './load.ts'
import type { Plan } from './plan.ts'
import type { HatRun } from './runs.ts'
import type { StrategyName } from './strategies.ts'
import type { HatPrompt, WorkloadName } from './workload.ts'

/** The inputs that all measurements share. */
export interface Bed {
  readonly bundle: string
  readonly plan: Plan
  readonly links: LinkConditions
  readonly cores: Cores | undefined
  readonly dialogues: readonly BenchPrompt[]
  readonly workloads: Readonly<Record<WorkloadName, readonly HatPrompt[]>>
  readonly eos: number | undefined
  /** Time of one row through the output part. */
  readonly headMs: number
  readonly io: Io
  progress(line: string): void
}

/** Runs, and their answers until these are compared with the reference. */
export interface Results {
  readonly runs: HatRun[]
  readonly answers: { readonly strategy: StrategyName; readonly answers: readonly UncheckedAnswer[] }[]
}
