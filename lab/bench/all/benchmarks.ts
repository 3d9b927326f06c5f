/** A benchmark as `brim bench all` runs it. */
export interface ListedBench {
  /** Of its folder in docs/results. */
  readonly name: string
  readonly words: readonly string[]
  /** Measured on two cores; of a run with and of one without --quick. */
  readonly quickS: number
  readonly fullS: number
}

/** In the order in which they run: some read what others have saved (validation, simulate scale). */
export const benchmarks: readonly ListedBench[] = [
  bench('engine', 90, 110),
  bench('acceptance', 5, 240),
  bench('telemetry', 42, 35),
  bench('tokenflow-plan', 6, 3),
  bench('disco-plan', 12, 4),
  bench('queue', 48, 80),
  bench('simulator', 50, 110),
  bench('attack', 105, 140),
  bench('failover', 56, 145),
  bench('fleet', 80, 400),
  bench('hat', 465, 1_900),
  bench('tokenflow', 480, 2_800),
  bench('pice', 480, 1_460),
  bench('disco', 360, 570),
  bench('chaos', 52, 1_850),
  simulation('validation', ['validate'], 3, 6),
  simulation('simulate-scale', ['scale'], 120, 400),
  simulation('simulate-fleet', ['fleet'], 130, 1_500),
  simulation('paper-tokenflow', ['paper', 'tokenflow'], 60, 150),
  simulation('paper-hat', ['paper', 'hat'], 60, 300),
  simulation('paper-disco', ['paper', 'disco'], 120, 900),
  simulation('paper-pice', ['paper', 'pice'], 120, 500),
]

function bench(name: string, quickS: number, fullS: number): ListedBench {
  return { name, words: ['bench', name], quickS, fullS }
}

function simulation(name: string, words: readonly string[], quickS: number, fullS: number): ListedBench {
  return { name, words: ['simulate', ...words], quickS, fullS }
}
