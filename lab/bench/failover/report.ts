import { median } from '../../../core/policy/estimate/quantile.ts'
import type { Figure } from '../../plot/plot.ts'
import type { BenchDocument, BenchReport, Table } from '../frame/bench.ts'
import { loadText } from '../frame/page.ts'
import { type FailoverRun, lostSeconds, touchedNeighbours } from './figures.ts'
import { type FaultKind, faultKinds, faultNames } from './plan.ts'

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
        const sum = (count: (run: FailoverRun) => number) => String(runs.reduce((total, run) => total + count(run), 0))
        return [
          ...[name, String(runs.length), String(lostS.length)],
          sum(({ identical }) => (identical ? 1 : 0)),
          sum(({ duplicatedTokens }) => duplicatedTokens),
          sum(touchedNeighbours),
          lostS.length === 0 ? '–' : median(lostS).toFixed(2),
          lostS.length === 0 ? '–' : Math.max(...lostS).toFixed(2),
        ]
      }),
  }
}

function figure(document: BenchDocument): Figure {
  const all = runsOf(document)
  const groups = faultKinds.flatMap((kind) => {
    const lostS = lostSeconds(all.filter((run) => run.kind === kind))
    if (lostS.length === 0) return []
    const bars = [
      { name: 'median', value: median(lostS) },
      { name: 'max', value: Math.max(...lostS) },
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
