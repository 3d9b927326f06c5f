/** What the bench runs: of the day, the busiest `windowS`. */
export interface FleetPlan {
  /** GPUs of the runs, ascending, and those that are shown in full. */
  readonly counts: readonly number[]
  readonly overloaded: number
  readonly studied: number
  /** GPUs with which Brim runs without each part, too. */
  readonly ablated: readonly number[]
  /** Of the least number of GPUs. */
  readonly exactness: number
  readonly seeds: readonly number[]
  readonly windowS: number
  readonly warmUpS: number
  readonly coolDownS: number
}

/** What it states beside the machine. */
export interface FleetConditions extends FleetPlan {
  readonly devices: number
  readonly requests: number
  readonly dayS: number
  readonly dayRequests: number
  readonly cores: number
}
