/** What PICE's plans depend on. Times in seconds, lengths in tokens of the LLM unless said otherwise. */

/** f(l) = waitS + ttftS + (l - 1) · tpotS of the cloud LLM, at its present load. */
export interface CloudSpeed {
  /** Until an answer that is asked for now begins to be computed. */
  readonly waitS: number
  readonly ttftS: number
  readonly tpotS: number
  /** Answers that it computes at once; absent: 1. */
  readonly slots?: number
  /** Answers that it computes now; absent: 0. */
  readonly running?: number
}

/** How fast one small model writes on one device. */
export interface SmallModelSpeed {
  readonly model: string
  /** Time to open it (switching cost); 0 for a model that is open or on a server. */
  readonly loadS: number
  /** Of a short prompt. */
  readonly ttftS: number
  /** Per token of the LLM of a longer prompt; absent: not measured. */
  readonly prefillS?: number
  /** Of prompt and answer, in tokens of the LLM; absent: not known. */
  readonly contextTokens?: number
  /** Per token of the LLM, of one sequence alone. */
  readonly tpotS: number
  /** p: throughput of n sequences decoded together over that of one, ascending in n; [1, 1] is implied. */
  readonly parallel: readonly (readonly [sequences: number, speedup: number])[]
  /** How good its expansions are: mean confidence (Eq. 3) as measured, 0..1; undefined: not measured yet. */
  readonly ability: number | undefined
}

export interface ExpandingDevice {
  readonly device: string
  /** Ascending by ability, or by size where it is not measured. At least one. */
  readonly models: readonly SmallModelSpeed[]
  /** Name of the model that is open. */
  readonly current: string | undefined
  /** Until it has finished what it was given. */
  readonly busyS: number
  /** Network time of a sketch to it and of the first sentence back, Δ(r). */
  readonly networkS: number
  /** Devices for which all of this is the same, itself included; absent: 1. */
  readonly count?: number
}

/** Devices that these stand for. */
export const deviceCount = (devices: readonly ExpandingDevice[]): number => devices.reduce((sum, { count = 1 }) => sum + count, 0)

export interface WaitingExpansion {
  readonly id: string
  readonly expectedTokens: number
  readonly waitedS: number
  /** f(l) − f(|r|), less what is spent of it; absent: unlimited. */
  readonly budgetS?: number
  /** Until its sketch is written; absent: it is. */
  readonly arrivesInS?: number
}

export interface FleetView {
  readonly devices: readonly ExpandingDevice[]
  readonly waiting: readonly WaitingExpansion[]
  /** Devices that expand but whose speed is not known yet; absent: none. */
  readonly unmeasured?: number
}
