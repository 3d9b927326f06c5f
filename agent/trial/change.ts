import type { TrialQuestion } from '../../core/wire/protocol/jobs.ts'

/** What the agent is started again for: in this process with other options, or as another release of the software. */
export type RestartKind = 'configuration' | 'software'

/** A change that the agent was started with and that is kept only if it is healthy. */
export interface ChangeOnTrial {
  readonly kind: RestartKind
  /** A question that the device must answer. */
  readonly probe: TrialQuestion | undefined
  keep(): void
  /** The next start of the agent has what was before. */
  undo(problem: string): void
}
