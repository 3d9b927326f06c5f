import { loadText } from '../../frame/page.ts'
import { type Bar, barPanel } from '../../frame/panels.ts'
import { runsBy } from '../../frame/runs.ts'
import { maxOf, medianOrNull, sum } from '../../frame/statistics.ts'
import type { DocumentOf, FigureRow, FigureTable, ShownRuns } from '../../frame/tabled-bench.ts'
import { tableOf, toDigits } from '../../frame/tables.ts'
import { bridgeFaults, type FaultKind, faultKinds, faultNames } from './plan.ts'

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
const lostSeconds = (runs: readonly FailoverRun[]) => runs.filter(({ failovers }) => failovers > 0).map(({ lostS }) => lostS)
const different = (runs: readonly FailoverRun[]) => runs.filter(({ identical }) => !identical).length
const duplicated = (runs: readonly FailoverRun[]) => sum(runs.map(({ duplicatedTokens }) => duplicatedTokens))
const touched = (runs: readonly FailoverRun[]) => sum(runs.map(touchedNeighbours))

const lostOf = (kind: FaultKind): FigureRow<FailoverRun> => [
  (runs) => medianOrNull(lostSeconds(runs.filter((run) => run.kind === kind))),
]

export const failoverFigures: FigureTable<FailoverRun> = {
  runs: [(runs) => runs.length],
  failedOver: [(runs) => lostSeconds(runs).length],
  different: [different, { max: 0 }],
  duplicatedTokens: [duplicated, { max: 0 }],
  touchedNeighbours: [touched, { max: 0 }],
  lostSMedianKill: lostOf('kill'),
  lostSMedianHang: lostOf('hang'),
  lostSMedianCut: lostOf('cut'),
  lostSMedianStall: lostOf('stall'),
  lostSMedianGarbage: lostOf('garbage'),
  lostSMax: [(runs) => maxOf(lostSeconds(runs)), { max: 20 }],
}

export function showFailover(document: DocumentOf<FailoverRun>): ShownRuns {
  const { runs: all, conditions } = document
  const { model, format, maxTokens, seed, cpu, cores } = conditions
  const byKind = runsBy(all, 'kind', faultKinds)
  const bars = byKind.flatMap(({ name, runs }): Bar[] => [
    [name, 'median', medianOrNull(lostSeconds(runs))],
    [name, 'max', maxOf(lostSeconds(runs))],
  ])
  return {
    figure: {
      title: 'Answers that survive their bridge or link',
      subtitle: `${model}; ${all.length} answers with one fault each; seed ${seed}`,
      columns: 1,
      panels: [barPanel('Seconds without text', 's, from the fault on', bars)],
    },
    tables: [
      tableOf(
        'By kind of fault',
        [...byKind, { name: 'all', runs: all }],
        [
          ['fault', ({ name }) => name],
          ['runs', ({ runs }) => String(runs.length)],
          ['failed over', ({ runs }) => String(lostSeconds(runs).length)],
          ['identical', ({ runs }) => String(runs.length - different(runs))],
          ['duplicated tokens', ({ runs }) => String(duplicated(runs))],
          ['neighbours touched', ({ runs }) => String(touched(runs))],
          ['lost s, median', ({ runs }) => toDigits(medianOrNull(lostSeconds(runs)), 2)],
          ['max', ({ runs }) => toDigits(maxOf(lostSeconds(runs)), 2)],
        ],
      ),
    ],
    conditions: `Two \`brim bridge run\` processes, each behind a relay, and a \`brim agent run\` that knows both. At each bridge one more
agent, the neighbour, answers at the same time and knows no other bridge. ${model} (${format}), prompts of random tokens, half of
the answers greedy and half sampled at temperature 0.8, at most ${maxTokens} tokens each; seed ${seed}. ${cpu}, ${cores} cores for
all five processes; ${loadText(document)}.

${faultKinds.map((kind) => `- *${kind}*: ${faultNames[kind]}.`).join('\n')}
- The fault hits the bridge or the connection that carries the answer, after a random share of its text, at most four fifths.
  One fault in five comes in prefill, before any text.
- *failed over*: the answer continued in a session opened in place of a lost one. In the other runs the fault came after the last
  frame that mattered.
- *identical*: tokens and streamed text equal those of the same question without a fault. *duplicated*: delivered beyond them.
- *neighbours touched*: their answer changed, or had to move although their bridge worked.
- *lost*: the longest wait for text from the fault on, in answers that failed over.`,
  }
}
