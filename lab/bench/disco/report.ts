import type { BenchReport } from '../frame/bench.ts'
import { discoFigure } from './figure.ts'
import { tablesOf } from './tables.ts'

export const discoReport: BenchReport = {
  title: 'DiSCo and its baselines',
  contents: 'every setting with its figures of each seed',
  figure: discoFigure,
  figureText: 'TTFT by budget for heavy-tailed and steady traces, and cost by budget with and without migration',
  tables: tablesOf,
  conditions: () => '',
}
