import type { KvSize } from '../admission/kv.ts'
import type { KvMemoryLimits } from './kv-memory.ts'
import type { ServingPolicy, ServingSpeeds } from './policy.ts'

export interface TierOptions {
  /** Of the slow tier; 0: there is none, so that rows that leave the memory are lost. */
  readonly slowBytes: number
  /** Rows are saved while their streams run, rather than only when they are evicted. */
  readonly writeThrough: boolean
  /** Memory is charged and freed piece by piece, so that loads begin while evictions end; else a load waits for them. */
  readonly overlap: boolean
  /** Pages of a transfer after which what it frees or needs is counted. */
  readonly piecePages: number
}

/** What a serving machine keeps to, in plain data. */
export interface ServingRules {
  /** What one step holds, and how many are under way at once: as many as the model has stages. */
  readonly step: { readonly rows: number; readonly streams: number; readonly pipeline: number }
  readonly memory: KvMemoryLimits
  readonly tiers: TierOptions
  /** Positions of a stream, at most. */
  readonly contextLimit: number
  /** Whether answers may begin with rows of others: `compare` asks for them. */
  readonly sharesPrefixes: boolean
  /** Rows of a device wait so long for memory that others hold. */
  readonly maxMemoryWaitMs: number
  /** Answers that wait for their first step, at most. */
  readonly maxWaitingAnswers: number
}

export interface ServingMachineOptions extends ServingRules {
  /** Of its own: a policy may remember its plans. */
  readonly policy: ServingPolicy
  /** KV of a device's rows, and of an answer's. */
  readonly sizes: { readonly device: KvSize; readonly answer: KvSize }
  /** What only the simulator varies. */
  readonly whatIf?: {
    /** No step begins while an eviction or a load is under way, as where the scheduler moves the KV itself. */
    readonly waitsForTransfers: boolean
    /** Devices wait for memory for as long as others need it: no session and no rows are refused for the lack of it. */
    readonly waitsForMemory: boolean
    /** Whether a prompt's next piece begins once the one before has left the first stage; else never two steps hold one stream. */
    readonly pipelinedPrompts: boolean
    /** Speeds that the policy gets in place of those that have been measured. */
    readonly speeds?: Partial<ServingSpeeds> | undefined
  }
}
