/** A benchmark as `brim bench all` runs it. */
export interface ListedBench {
  /** Of its folder in docs/results. */
  readonly name: string
  readonly words: readonly string[]
  /** Measured on two cores; of a run with and of one without --quick. */
  readonly quickS: number
  readonly fullS: number
  /** It reads what others have saved, so that it is measured again each time. */
  readonly readsResults?: boolean
}

/** In the order in which they run: some read what others have saved. */
export const benchmarks: readonly ListedBench[] = [
  bench('engine', 100, 120),
  bench('acceptance', 5, 240),
  bench('telemetry', 42, 35),
  bench('structured', 60, 300),
  bench('tokenflow-plan', 6, 3),
  bench('disco-plan', 12, 4),
  bench('queue', 48, 80),
  bench('simulator', 50, 110),
  bench('privacy', 210, 2_400),
  bench('attack', 105, 140),
  bench('failover', 56, 145),
  bench('fleet', 80, 400),
  bench('page', 60, 90),
  bench('hat', 1_020, 1_900),
  bench('tokenflow', 320, 2_900),
  bench('pice', 430, 1_460),
  bench('disco', 280, 570),
  bench('chaos', 52, 1_850),
  bench('cluster', 90, 260),
  { ...simulation('validation', ['validate'], 3, 6), readsResults: true },
  { ...simulation('simulate-scale', ['scale'], 60, 240), readsResults: true },
  simulation('simulate-fleet', ['fleet'], 200, 3_600),
  simulation('paper-tokenflow', ['paper', 'tokenflow'], 66, 150),
  simulation('paper-hat', ['paper', 'hat'], 23, 120),
  simulation('paper-disco', ['paper', 'disco'], 33, 300),
  simulation('paper-pice', ['paper', 'pice'], 36, 240),
]

function bench(name: string, quickS: number, fullS: number): ListedBench {
  return { name, words: ['bench', name], quickS, fullS }
}

function simulation(name: string, words: readonly string[], quickS: number, fullS: number): ListedBench {
  return { name, words: ['simulate', ...words], quickS, fullS }
}
