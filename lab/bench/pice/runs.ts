import { type Columns, picked, toColumns } from '../../frame/columns.ts'
import type { MethodName } from './methods.ts'

/** One request. */
export interface PiceSample {
  /** Id of the prompt. */
  readonly prompt: string
  /** When it was sent, since the run began, in ms. */
  readonly atMs: number
  /** Until the first text, and until the whole answer; null: none. */
  readonly ttftMs: number | null
  readonly tookMs: number | null
  /** How it was answered: by the LLM, by a small model alone, or by a sketch that devices expanded. */
  readonly by: 'cloud' | 'device' | 'sketch'
  /** Why the LLM wrote the answer, or what is missing of its expansion. */
  readonly reason: string | null
  readonly level: number | null
  readonly foreseenTokens: number | null
  /** Time of the answer by its plan; null without a plan. */
  readonly plannedS: number | null
  readonly sketchLines: number
  /** Sentences of the sketch that the LLM had to write. */
  readonly completedSentences: number
  /** Whether the answer has each form marker of its sketch; null: devices have expanded nothing. */
  readonly formKept: boolean | null
  /** Generated tokens, each in its model's vocabulary: foresight, sketch and text of the LLM; all candidates of devices. */
  readonly cloudTokens: number
  readonly edgeTokens: number
  /** Of the answer, in the LLM's vocabulary; null until it was judged. */
  readonly tokens: number | null
  readonly quality: Quality | null
  /** Why there is no whole answer; null: there is. */
  readonly error: string | null
}

/** What the LLM makes of an answer. */
export interface Quality {
  /** ROUGE-1 F against the LLM's own full answer. */
  readonly rouge1: number
  /** (1/N) Σ log2 p(w_i) of the answer's tokens under the LLM. */
  readonly meanLog2Probability: number
  /** Eq. 3 with these probabilities, and the LLM's own full answer in the place of the sketch. */
  readonly confidence: number
}

/** Purpose of a run: methods compared, or one setting varied. */
export type Measured = 'compared' | 'queue length' | 'bandwidth'

/** One method at one load. */
export interface PiceRun {
  readonly measured: Measured
  readonly method: MethodName
  readonly seed: number
  /** Requests per second over the cloud's capacity. */
  readonly load: number
  readonly perS: number
  /** The setting that is varied: expansions that may wait for each device, or bytes per second of its links. */
  readonly setting: number | null
  /** CPU time per second of bridge and devices together; null where the system does not report it. */
  readonly bridgeCore: number | null
  readonly devicesCore: number | null
  readonly samples: readonly PiceSample[]
}

const keptSettings = ['measured', 'method', 'seed', 'load'] as const
const keptNames = ['atMs', 'ttftMs', 'tookMs', 'tokens', 'by'] as const
export type KeptPiceSample = Pick<PiceSample, (typeof keptNames)[number]>
/** What the simulator is validated with: such a run as a saved document keeps it. */
export type KeptPiceRun = Pick<PiceRun, (typeof keptSettings)[number]> & { readonly samples: Columns<KeptPiceSample> }

export const keptPiceRun = (run: PiceRun): KeptPiceRun => ({
  ...picked(run, keptSettings),
  samples: toColumns(run.samples, keptNames),
})

/** What was measured before the runs. */
export interface Capacity {
  /** Answers per second of the saturated cloud, and of all devices' small models. */
  readonly cloudPerS: number
  readonly edgePerS: number
  /** Tokens per answer, in each model's own vocabulary. */
  readonly cloudTokens: number
  readonly edgeTokens: number
  /** Seconds per token of one answer alone. */
  readonly cloudTokenS: number
  readonly edgeTokenS: number
}

/** A sketch of ten sentences on one device: in one job, and in ten jobs of one sentence, one after another. */
export interface DeviceFigures {
  /** Of the one job: positions of all prompts, those that were computed, and the sequences. */
  readonly promptTokens: number
  readonly prefilledTokens: number
  readonly groups: number
  /** Prefill and decoding on the device, and the tokens that were generated. */
  readonly parallelMs: number
  readonly parallelTokens: number
  readonly sequentialMs: number
  readonly sequentialTokens: number
}
