import type { KvSize } from '../../../core/policy/admission/kv.ts'
import type { ServingPolicy, ServingSpeeds } from '../../../core/policy/serving/policy.ts'
import type { TierOptions } from '../../../core/policy/serving/serving-rules.ts'
import type { SlowTierLinkOptions } from './slow-tier-link.ts'
import type { StepContent } from './step-content.ts'

export interface EngineOptions extends SlowTierLinkOptions, Pick<TierOptions, 'writeThrough' | 'overlap'> {
  /** KV of the fast tier. */
  readonly memoryBytes: number
  /** Of its own: a policy may remember its plans. */
  readonly policy: ServingPolicy
  /** Seconds of a step, through all stages of the pipeline. */
  stepS(step: StepContent): number
  /** σ of the log of measured over predicted step times. */
  readonly stepJitter: number
  /** KV of an answer of the whole model. */
  readonly answerKv: KvSize
  /** KV of a device's rows: of the model's middle. */
  readonly deviceKv: KvSize
  /** Positions that a device's stream is charged before its first row. */
  readonly firstPositions: number
  /** What one step holds. */
  readonly step: { readonly rows: number; readonly streams: number }
  /** No step begins while an eviction or a load is under way, as where the scheduler moves the KV itself. */
  readonly waitsForTransfers: boolean
  /** P: stages; as many steps are under way at once. */
  readonly pipeline: number
  /** Whether a prompt's next piece begins once the one before has left the first stage; else never two steps hold one stream. */
  readonly pipelinedPrompts: boolean
  /** More rows of a device than this count as a prompt, whatever they are. */
  readonly maxDecodeRows: number
  /** Answers that wait for their first step, at most. */
  readonly maxWaiting: number
  /** For which rows of a device wait for memory; then its session fails. Absent: devices wait for as long as others need it. */
  readonly maxMemoryWaitMs?: number | undefined
  /** Speeds that the policy gets in place of those that the engine has measured. */
  readonly speeds?: Partial<ServingSpeeds>
}
