import type { BenchDocument } from '../../frame/bench.ts'
import type { LiveFigures, LiveRun } from '../disco/live.ts'
import { type AnswerTimes, cellsOf, type ValidationCell } from './cells.ts'

/** The live answers beside their replay, which that benchmark makes with the simulator's sides as it measures. */
export function validateDisco({ runs }: BenchDocument): ValidationCell[] {
  const live = (runs as readonly LiveRun[]).filter(({ measured }) => measured === 'live')
  return [...new Set(live.map(({ method }) => method))].flatMap((method) => {
    const own = live.filter((run) => run.method === method)
    return cellsOf('disco', method, inTurn(own, 'live'), inTurn(own, 'replay'))
  })
}

/** One answer after the other, as an agent's requests were. */
function inTurn(runs: readonly LiveRun[], which: 'live' | 'replay'): AnswerTimes[] {
  let atMs = 0
  return runs.map((run) => {
    const { ttftMs, tookMs }: LiveFigures = run[which]
    const tokens = run.outputTokens
    const times = { atMs, ttftMs, tbtMs: tokens > 1 ? (tookMs - ttftMs) / (tokens - 1) : null, tookMs, tokens }
    atMs += tookMs
    return times
  })
}
