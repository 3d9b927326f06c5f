import type { BenchDocument, BenchReport, Summary, Table } from '../../frame/bench.ts'
import { loadText } from '../../frame/page.ts'
import { medianOrNull, sum } from '../../frame/statistics.ts'
import type { Figure } from '../../plot/plot.ts'
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
export const lostSeconds = (runs: readonly FailoverRun[]) =>
  runs.filter(({ failovers }) => failovers > 0).map(({ lostS }) => lostS)

export function summarise(runs: readonly FailoverRun[]): Summary {
  const count = (which: (run: FailoverRun) => boolean) => runs.filter(which).length
  const lost = (kind: FaultKind) => lostSeconds(runs.filter((run) => run.kind === kind))
  return {
    runs: runs.length,
    failedOver: count(({ failovers }) => failovers > 0),
    different: count(({ identical }) => !identical),
    duplicatedTokens: sum(runs.map(({ duplicatedTokens }) => duplicatedTokens)),
    touchedNeighbours: sum(runs.map(touchedNeighbours)),
    ...Object.fromEntries(faultKinds.map((kind) => [`lostSMedian${capital(kind)}`, medianOrNull(lost(kind))])),
    lostSMax: maxOrNull(lostSeconds(runs)),
  }
}

const capital = (word: string) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`
const maxOrNull = (values: readonly number[]) => (values.length === 0 ? null : Math.max(...values))
const written = (value: number | null) => value?.toFixed(2) ?? '–'

export const failoverReport: BenchReport = {
  title: 'Failover',
  contents: 'every run',
  figure,
  figureText: 'Seconds lost by kind of fault',
  tables: (document) => [faultTable(runsOf(document))],
  conditions,
}

const runsOf = ({ runs }: BenchDocument) => runs as readonly FailoverRun[]

function faultTable(all: readonly FailoverRun[]): Table {
  const of = (kind: FaultKind): [string, readonly FailoverRun[]] => [kind, all.filter((run) => run.kind === kind)]
  const groups: [string, readonly FailoverRun[]][] = [...faultKinds.map(of), ['all', all]]
  return {
    title: 'By kind of fault',
    head: ['fault', 'runs', 'failed over', 'identical', 'duplicated tokens', 'neighbours touched', 'lost s, median', 'max'],
    rows: groups
      .filter(([, runs]) => runs.length > 0)
      .map(([name, runs]) => {
        const lostS = lostSeconds(runs)
        return [
          ...[name, String(runs.length), String(lostS.length), String(runs.filter(({ identical }) => identical).length)],
          String(sum(runs.map(({ duplicatedTokens }) => duplicatedTokens))),
          String(sum(runs.map(touchedNeighbours))),
          ...[written(medianOrNull(lostS)), written(maxOrNull(lostS))],
        ]
      }),
  }
}

function figure(document: BenchDocument): Figure {
  const all = runsOf(document)
  const groups = faultKinds.flatMap((kind) => {
    const lostS = lostSeconds(all.filter((run) => run.kind === kind))
    const [half, max] = [medianOrNull(lostS), maxOrNull(lostS)]
    if (half === null || max === null) return []
    const bars = [
      { name: 'median', value: half },
      { name: 'max', value: max },
    ]
    return [{ label: kind, bars }]
  })
  return {
    title: 'Answers that survive their bridge or link',
    subtitle: `${document.conditions.model}; ${all.length} answers with one fault each; seed ${document.conditions.seed}`,
    columns: 1,
    panels: [{ kind: 'bars', title: 'Seconds without text', yLabel: 's, from the fault on', groups }],
  }
}

function conditions(document: BenchDocument): string {
  const { model, format, maxTokens, seed, cpu, cores } = document.conditions
  return `Two \`brim bridge run\` processes, each behind a relay, and a \`brim agent run\` that knows both. At each bridge one more
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
- *lost*: the longest wait for text from the fault on, in answers that failed over.`
}
