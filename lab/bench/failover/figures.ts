import { median } from '../../../core/base/statistics.ts'
import type { BenchDocument } from '../frame.ts'
import { type FaultKind, faultKinds, hitsAll } from './plan.ts'

/** One answer with a fault in it. */
export interface FailoverRun {
  readonly kind: FaultKind
  /** The bridge that the answer was on; null: the answer had ended before the fault could come. */
  readonly bridge: string | null
  readonly promptTokens: number
  readonly temperature: number
  /** Share of its text that had come when the fault did, 0..1; 0: it came in prefill. */
  readonly moment: number
  /** Of the answer without a fault. */
  readonly tokens: number
  /** The same tokens and the same text, streamed, as without the fault. */
  readonly identical: boolean
  /** Delivered beyond those of the answer without a fault. */
  readonly duplicatedTokens: number
  /** Sessions that were opened in place of lost ones; 0: the fault came too late to matter. */
  readonly failovers: number
  /** The longest wait for text from the fault on. */
  readonly lostS: number
  /** What other devices' answers at both bridges met at the same time. */
  readonly neighbours: readonly { readonly identical: boolean; readonly failovers: number; readonly error: string | null }[]
  /** Why the answer ended early. */
  readonly error: string | null
}

/** Answers of neighbours that are not what they were, or had to move though their bridge lived. */
export function touched({ kind, neighbours }: FailoverRun): number {
  return neighbours.filter(({ identical, failovers }) => !identical || (!hitsAll.has(kind) && failovers > 0)).length
}

/** Seconds lost where the answer failed over; a fault that came too late costs nothing and says nothing. */
export const lostSeconds = (runs: readonly FailoverRun[]) =>
  runs.filter(({ failovers }) => failovers > 0).map(({ lostS }) => lostS)

export function summarise(runs: readonly FailoverRun[]): BenchDocument['summary'] {
  const count = (which: (run: FailoverRun) => boolean) => runs.filter(which).length
  const sum = (of: (run: FailoverRun) => number) => runs.reduce((total, run) => total + of(run), 0)
  const lost = (kind: FaultKind) => lostSeconds(runs.filter((run) => run.kind === kind))
  return {
    runs: runs.length,
    failedOver: count(({ failovers }) => failovers > 0),
    different: count(({ identical }) => !identical),
    duplicatedTokens: sum(({ duplicatedTokens }) => duplicatedTokens),
    touchedNeighbours: sum(touched),
    ...Object.fromEntries(faultKinds.map((kind) => [`lostSMedian${capital(kind)}`, orNull(median(lost(kind)))])),
    lostSMax: orNull(Math.max(...lostSeconds(runs))),
  }
}

const capital = (word: string) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`
const orNull = (value: number) => (Number.isFinite(value) ? value : null)
