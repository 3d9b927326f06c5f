/** What the bench states beside the machine. */
export interface FleetConditions {
  readonly devices: number
  /** GPUs of the runs, ascending, and those that are shown in full. */
  readonly counts: readonly number[]
  readonly overloaded: number
  readonly studied: number
  /** GPUs with which Brim runs without each part, too. */
  readonly ablated: readonly number[]
  readonly seeds: readonly number[]
  readonly windowS: number
  readonly warmUpS: number
  readonly coolDownS: number
  readonly requests: number
  readonly dayS: number
  readonly dayRequests: number
  readonly cores: number
}
