import { type BarPanel, type LinePanel, renderFigure } from '../../plot/plot.ts'
import { layOutTable } from '../../plot/table.ts'
import type { BenchDocument } from '../frame.ts'
import {
  type AcceptanceRun,
  acceptLength,
  acceptLengthsByPosition,
  type DrafterKind,
  drafters,
  ratesByDraftPosition,
} from './figures.ts'

interface Table {
  readonly title: string
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

/** What is printed without --json. */
export function acceptanceTables(document: BenchDocument): string[] {
  return tablesOf(document).flatMap(({ title, head, rows }) => [title, '', ...layOutTable(head, rows), ''])
}

/** Figure and page of `brim bench acceptance --save`. */
export function reportAcceptance(document: BenchDocument, goals: readonly string[][]): { svg: string; markdown: string } {
  return { svg: figure(document), markdown: page(document, goals) }
}

const runsOf = ({ runs }: BenchDocument) => runs as readonly AcceptanceRun[]

/** The drafters that ran, each with its runs. */
function byDrafter(runs: readonly AcceptanceRun[]): { drafter: DrafterKind; own: readonly AcceptanceRun[] }[] {
  return drafters
    .map((drafter) => ({ drafter, own: runs.filter((run) => run.drafter === drafter) }))
    .filter(({ own }) => own.length > 0)
}

const tasksOf = (runs: readonly AcceptanceRun[]) => [...new Set(runs.map(({ task }) => task))].sort()
const lengthOf = (runs: readonly AcceptanceRun[]) => written(acceptLength(runs))
const written = (value: number | null) => (value === null ? '–' : value.toFixed(2))

function tablesOf(document: BenchDocument): Table[] {
  const runs = runsOf(document)
  const shown = byDrafter(runs)
  const tasks = tasksOf(runs)
  const rates = shown.map(({ own }) => ratesByDraftPosition(own))
  const places = Array.from({ length: Math.max(0, ...rates.map((rate) => rate.length)) }, (_, at) => at)
  const buckets = shown.map(({ own }) => acceptLengthsByPosition(own))
  const starts = [...new Set(buckets.flat().map(({ from }) => from))].sort((a, b) => a - b)
  const sum = (own: readonly AcceptanceRun[], what: 'drafted' | 'accepted') => own.reduce((total, run) => total + run[what], 0)
  return [
    {
      title: 'Accept length: tokens per verification, the bonus included',
      head: ['drafter', 'all', 'without loops', ...tasks, 'drafted', 'accepted'],
      rows: shown.map(({ drafter, own }) => [
        drafter,
        lengthOf(own),
        lengthOf(own.filter(({ looping }) => !looping)),
        ...tasks.map((task) => lengthOf(own.filter((run) => run.task === task))),
        String(sum(own, 'drafted')),
        String(sum(own, 'accepted')),
      ]),
    },
    {
      title: 'Acceptance rate by draft position: of the drafts that reach it, how many had it accepted',
      head: ['drafter', ...places.map((at) => String(at + 1))],
      rows: shown.flatMap(({ drafter }, row) => {
        const own = rates[row] ?? []
        return own.length === 0 ? [] : [[drafter, ...places.map((at) => written(own[at]?.rate ?? null))]]
      }),
    },
    {
      title: 'Accept length by position in the context',
      head: ['drafter', ...starts.map((from) => `from ${from}`)],
      rows: shown.map(({ drafter }, row) => [
        drafter,
        ...starts.map((start) => written(buckets[row]?.find(({ from }) => from === start)?.acceptLength ?? null)),
      ]),
    },
  ]
}

/** Rates of fewer drafts than this share of all would be noise. */
const shownShare = 0.02

function figure(document: BenchDocument): string {
  const { conditions } = document
  const drafting = byDrafter(runsOf(document)).filter(({ drafter }) => drafter !== 'none')
  const rates: LinePanel = {
    kind: 'lines',
    title: 'Acceptance by draft position',
    xLabel: 'position in the draft (of a tree: depth)',
    yLabel: 'accepted, of the drafts that reach it',
    series: drafting.map(({ drafter, own }) => {
      const all = ratesByDraftPosition(own)
      const drafts = all[0]?.drafts ?? 0
      const points = all.filter((at) => at.drafts >= shownShare * drafts).map(({ position, rate }) => [position, rate] as const)
      return { name: drafter, points }
    }),
  }
  const groups = [
    { title: 'all answers', among: () => true },
    { title: 'without loops', among: ({ looping }: AcceptanceRun) => !looping },
    ...tasksOf(runsOf(document)).map((task) => ({ title: task, among: (run: AcceptanceRun) => run.task === task })),
  ].map(({ title, among }) => ({
    title,
    answers: drafting[0]?.own.filter(among).length ?? 0,
    bars: drafting.flatMap(({ drafter, own }) => {
      const value = acceptLength(own.filter(among))
      return value === null ? [] : [{ name: drafter, value }]
    }),
  }))
  const yMax = Math.max(0, ...groups.flatMap(({ bars }) => bars.map(({ value }) => value)))
  const lengths = groups.map(
    ({ title, answers, bars }): BarPanel => ({
      kind: 'bars',
      title: `Accept length: ${title}`,
      yLabel: 'tokens per verification, the bonus included',
      yMax,
      groups: [{ label: `${answers} answers`, bars }],
    }),
  )
  return renderFigure({
    title: 'Drafters: what one verification brings',
    subtitle: `${conditions.model}; ${conditions.answers} greedy answers of at most ${conditions.maxTokens} tokens; η = ${conditions.threshold}, drafts of at most ${conditions.draftLimit}`,
    columns: 3,
    panels: [rates, ...lengths],
  })
}

function describe(drafter: DrafterKind, { features, medusaTree }: BenchDocument['conditions']): string {
  const descriptions: Record<DrafterKind, string> = {
    'adapter+lookup': 'the adapter, and lookup where that is less sure than η',
    adapter: features ? 'Λ that also reads deep states where the device knows them' : 'Λ of HAT Eq. 4',
    'adapter-paper': 'Λ of HAT Eq. 4',
    lookup: 'what followed the last n-gram where that has occurred before, in prompt or answer',
    medusa: `heads on the last deep state, a tree of ${(medusaTree as readonly unknown[] | null)?.length ?? 0} nodes whatever the draft limit`,
    none: 'one token per verification',
  }
  return descriptions[drafter]
}

function page(document: BenchDocument, goals: readonly string[][]): string {
  const { conditions } = document
  const row = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  const table = (head: readonly string[], rows: readonly (readonly string[])[]) =>
    [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n')
  const tables = tablesOf(document).map(({ title, head, rows }) => `## ${title}\n\n${table(head, rows)}`)
  return `# Drafters

Made by \`${conditions.command} --save\` on ${conditions.startedAt} (commit ${conditions.commit ?? 'unknown'}); every round
of every answer is in [acceptance.json](acceptance.json): its draft's length and how much of it was accepted.

![Acceptance rate by draft position and accept length per task](acceptance.svg)

${table(['figure', 'measured', 'reach', ''], goals)}

${tables.join('\n\n')}

## Conditions

${conditions.model} (${conditions.format}, model id ${String(conditions.modelId).slice(0, 12)}); ${conditions.answers} prompts of
${conditions.prompts}; greedy answers of at most ${conditions.maxTokens} tokens by the reference (the whole model with the wire's
rounding at the cuts); η = ${conditions.threshold}, drafts of at most ${conditions.draftLimit} tokens.

Each drafter is the agent's own code, replayed round by round against the answer that is already there.

${byDrafter(runsOf(document))
  .map(({ drafter }) => `- *${drafter}*: ${describe(drafter, conditions)}.`)
  .join('\n')}
- *drafted* and *accepted* are totals; all nodes of a tree count as drafted. The figure leaves out places that fewer than
  ${100 * shownShare} % of a drafter's drafts reach.
- ${conditions.loopingAnswers} of the ${conditions.answers} answers loop (more than half of their 4-grams have occurred in them before); *without
  loops* leaves them out.
`
}
