import type { ModeResult } from '../results/mode-result.ts'
import type { EngineFigures } from '../serving/engine.ts'

/** What a run of a scenario came to. The same scenario gives the same result, to the last digit. */
export interface ScenarioResult {
  readonly scenario: string
  readonly seed: number
  /** Every request was answered or refused, or `untilS` was reached. False: interrupted. */
  readonly isComplete: boolean
  /** Virtual seconds from the first request to the end of the last. */
  readonly durationS: number
  readonly events: number
  readonly all: ModeResult
  /** By part of the workload: its name, or else its mode. */
  readonly modes: Readonly<Record<string, ModeResult>>
  /** Of the cloud, one per replica. */
  readonly engines: readonly EngineResult[]
  /** By group. */
  readonly devices: Readonly<Record<string, DeviceResult>>
}

export interface EngineResult extends EngineFigures {
  /** What its memory holds beside the weights. */
  readonly kvBytes: number
  /** Share of the time in which it computed. */
  readonly busyShare: number
}

/** Means over the devices of a group. */
export interface DeviceResult {
  readonly count: number
  readonly busyShare: number
  /** Beside idle power. */
  readonly joules: number
  readonly upBytes: number
  readonly downBytes: number
}
