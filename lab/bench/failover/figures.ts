import { median } from '../../../core/policy/estimate/quantile.ts'
import type { Summary } from '../frame/bench.ts'
import { bridgeFaults, type FaultKind, faultKinds } from './plan.ts'

/** One answer that met a fault. */
export interface FailoverRun {
  readonly kind: FaultKind
  /** The bridge that verified the answer; null: the answer ended before the fault. */
  readonly bridge: string | null
  readonly promptTokens: number
  readonly temperature: number
  /** Share of the text delivered before the fault, 0..1; 0: the fault came in prefill. */
  readonly moment: number
  /** Length of the answer without a fault. */
  readonly tokens: number
  /** Tokens and streamed text equal those without the fault. */
  readonly identical: boolean
  /** Tokens beyond those of the answer without a fault. */
  readonly duplicatedTokens: number
  /** Sessions opened in place of lost ones; 0: the fault came too late to matter. */
  readonly failovers: number
  /** The longest wait for text from the fault on. */
  readonly lostS: number
  /** Answers of other devices at both bridges, at the same time. */
  readonly neighbours: readonly { readonly identical: boolean; readonly failovers: number; readonly error: string | null }[]
  /** Why the answer ended early. */
  readonly error: string | null
}

/** Number of neighbours' answers that changed, or had to move although their bridge was alive. */
export function touchedNeighbours({ kind, neighbours }: FailoverRun): number {
  return neighbours.filter(({ identical, failovers }) => !identical || (!bridgeFaults.has(kind) && failovers > 0)).length
}

/** Seconds lost by the answers that failed over; the others met their fault too late to lose any. */
export const lostSeconds = (runs: readonly FailoverRun[]) =>
  runs.filter(({ failovers }) => failovers > 0).map(({ lostS }) => lostS)

export function summarise(runs: readonly FailoverRun[]): Summary {
  const count = (which: (run: FailoverRun) => boolean) => runs.filter(which).length
  const sum = (of: (run: FailoverRun) => number) => runs.reduce((total, run) => total + of(run), 0)
  const lost = (kind: FaultKind) => lostSeconds(runs.filter((run) => run.kind === kind))
  return {
    runs: runs.length,
    failedOver: count(({ failovers }) => failovers > 0),
    different: count(({ identical }) => !identical),
    duplicatedTokens: sum(({ duplicatedTokens }) => duplicatedTokens),
    touchedNeighbours: sum(touchedNeighbours),
    ...Object.fromEntries(faultKinds.map((kind) => [`lostSMedian${capital(kind)}`, orNull(median(lost(kind)))])),
    lostSMax: orNull(Math.max(...lostSeconds(runs))),
  }
}

const capital = (word: string) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`
const orNull = (value: number) => (Number.isFinite(value) ? value : null)
