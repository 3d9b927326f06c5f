import { median } from '../../../core/base/statistics.ts'
import { renderFigure } from '../../plot/plot.ts'
import { layOutTable } from '../../plot/table.ts'
import type { BenchDocument } from '../frame.ts'
import { type FailoverRun, lostSeconds, touched } from './figures.ts'
import { type FaultKind, faultKinds, faultNames } from './plan.ts'

const head = ['fault', 'runs', 'failed over', 'identical', 'duplicated tokens', 'neighbours touched', 'lost s, median', 'max']

/** Printed without --json. */
export function failoverTable(document: BenchDocument): string[] {
  return [...layOutTable(head, rowsOf(document)), '']
}

/** Figure and page of `brim bench failover --save`. */
export function reportFailover(document: BenchDocument, goals: readonly string[][]): { svg: string; markdown: string } {
  return { svg: figure(document), markdown: page(document, goals) }
}

const runsOf = ({ runs }: BenchDocument) => runs as readonly FailoverRun[]

function rowsOf(document: BenchDocument): string[][] {
  const all = runsOf(document)
  const of = (kind: FaultKind): [string, readonly FailoverRun[]] => [kind, all.filter((run) => run.kind === kind)]
  const groups: [string, readonly FailoverRun[]][] = [...faultKinds.map(of), ['all', all]]
  return groups
    .filter(([, runs]) => runs.length > 0)
    .map(([name, runs]) => {
      const lost = lostSeconds(runs)
      return [
        name,
        String(runs.length),
        String(lost.length),
        String(runs.filter(({ identical }) => identical).length),
        String(runs.reduce((sum, run) => sum + run.duplicatedTokens, 0)),
        String(runs.reduce((sum, run) => sum + touched(run), 0)),
        lost.length === 0 ? '–' : median(lost).toFixed(2),
        lost.length === 0 ? '–' : Math.max(...lost).toFixed(2),
      ]
    })
}

function figure(document: BenchDocument): string {
  const all = runsOf(document)
  return renderFigure({
    title: 'An answer outlives its bridge',
    subtitle: `${document.conditions.model}; ${all.length} answers, a fault in each; seed ${document.conditions.seed}`,
    columns: 1,
    panels: [
      {
        kind: 'bars',
        title: 'Seconds that the reader waits',
        yLabel: 's, from the fault on',
        groups: faultKinds
          .map((kind) => ({ label: kind, lost: lostSeconds(all.filter((run) => run.kind === kind)) }))
          .filter(({ lost }) => lost.length > 0)
          .map(({ label, lost }) => ({
            label,
            bars: [
              { name: 'median', value: median(lost) },
              { name: 'max', value: Math.max(...lost) },
            ],
          })),
      },
    ],
  })
}

function page(document: BenchDocument, goals: readonly string[][]): string {
  const { conditions } = document
  const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const table = (titles: readonly string[], rows: readonly (readonly string[])[]) =>
    [row(titles), row(titles.map(() => '---')), ...rows.map(row)].join('\n')
  return `# Failover

Made by \`${conditions.command} --save\` on ${conditions.startedAt} (commit ${conditions.commit ?? 'unknown'}); every run is in
[failover.json](failover.json).

${table(head, rowsOf(document))}

![Seconds lost by kind of fault](failover.svg)

${table(['figure', 'measured', 'reach', ''], goals)}

## Conditions

Two \`brim bridge run\` processes, each behind a relay, and a \`brim agent run\` that knows both; at either bridge another
agent, the neighbour, which knows no other, answers at the same time. ${conditions.model} (${conditions.format}), prompts of random
tokens, half of the answers greedy and half sampled at 0.8, none longer than ${conditions.maxTokens} tokens; seed
${conditions.seed}. ${conditions.cpu}, ${conditions.cores} cores for all five processes; load average
${Number(conditions.loadAverageBefore).toFixed(1)} before and ${Number(conditions.loadAverageAfter).toFixed(1)} after.

${faultKinds.map((kind) => `- *${kind}*: ${faultNames[kind]}.`).join('\n')}
- The fault hits the bridge, or the one connection, that the answer is on, after a random share of its text has come, up to
  four fifths; one in five comes in prefill, before any.
- *failed over*: went on at a session opened in place of a lost one. Where it is less than the runs, the fault came after the
  last frame that mattered.
- *identical*: tokens, and text as it was streamed, are those of the same question without a fault. *duplicated*: delivered
  beyond them.
- *neighbours touched*: their answers were not what they were, or had to move though their bridge was at work.
- *lost*: the longest wait for text from the fault on, in the answers that failed over.
`
}
