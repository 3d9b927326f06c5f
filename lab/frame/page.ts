import type { BenchDocument, BenchReport, Goals, Shown, Table } from './bench.ts'
import { cores, type ForeignLoad } from './foreign-load.ts'
import { isWide, type Range, rangeOf } from './spread.ts'
import { toShort } from './tables.ts'

/** The Markdown page that --save writes beside a document and its figure. */
export function benchPage(document: BenchDocument, report: BenchReport, goals: Goals): string {
  const { conditions } = document
  const shown = shownOf(document, report)
  const { head, rows } = goalTable(document, goals)
  const tables = shown.tables.map((table) => `## ${table.title}\n\n${markdownTable(table.head, table.rows)}`)
  const sections = [
    `# ${report.title}`,
    `Measured by \`${conditions.command} --save\` on ${conditions.startedAt}, commit ${conditions.commit ?? 'unknown'}${foreignLoadText(document)}. ` +
      contentsText(document, report),
    `![${report.figureText}](${document.bench}.svg)`,
    markdownTable(head, rows),
    ...(shown.findings === null ? [] : [shown.findings]),
    ...tables,
    '## Conditions',
    shown.conditions,
  ]
  return `${sections.join('\n\n')}\n`
}

/** As the document says itself, or as the report makes it of its runs: of its tables those that have rows. */
export function shownOf(document: BenchDocument, report: BenchReport): Shown {
  return (
    document.shown ?? {
      figure: report.figure(document),
      tables: report.tables?.(document).filter(({ rows }) => rows.length > 0) ?? [],
      findings: report.findings?.(document) ?? null,
      conditions: report.conditions(document),
    }
  )
}

function contentsText({ bench, shown }: BenchDocument, { contents }: BenchReport): string {
  const file = `[${bench}.json](${bench}.json)`
  if (!shown) return `${file} holds ${contents}.`
  return `${file} holds what this page shows, and what other commands read.
The same command at that commit with \`--out FOLDER\` in place of \`--save\` writes ${contents}.`
}

export function markdownTable(head: Table['head'], rows: Table['rows']): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [head, head.map(() => '---'), ...rows].map(line).join('\n')
}

/** The machine of a document, for a page's conditions. */
export function machineText(document: BenchDocument): string {
  const { cpu, memoryGiB, platform, node } = document.conditions
  return `${cpu}, ${memoryGiB} GiB, ${platform}; Node ${node}; ${loadText(document)}`
}

/** One sentence fragment for a page's conditions, such as '2.1 before and 2.4 after'. */
export function loadText({ conditions }: Pick<BenchDocument, 'conditions'>): string {
  const { loadAverageBefore: before, loadAverageAfter: after } = conditions
  return `load average ${Number(before).toFixed(1)} before and ${Number(after).toFixed(1)} after`
}

/** What other processes used during the run; nothing of documents that do not have it. */
function foreignLoadText({ conditions }: BenchDocument): string {
  const { foreignLoad } = conditions as { foreignLoad?: ForeignLoad | null }
  return foreignLoad ? `, beside ${cores(foreignLoad.mean)} of other processes` : ''
}

/** The figures of a document beside their goals, with their range where they were measured several times. */
export function goalTable(
  { summary, repetitions }: Pick<BenchDocument, 'summary' | 'repetitions'>,
  goals: Goals,
): Omit<Table, 'title'> {
  const rows = Object.entries(summary).map(([name, value]) => {
    const range = repetitions && rangeOf(repetitions, name)
    const ranges = repetitions ? [range ? range.map((end) => toShort(end)).join(' to ') : ''] : []
    return value === null
      ? [name, '–', ...ranges, '', '']
      : [name, toShort(value), ...ranges, ...verdict(goals[name], value, range)]
  })
  return { head: ['figure', 'measured', ...(repetitions ? ['range'] : []), 'goal', ''], rows }
}

function verdict(goal: Goals[string] | undefined, value: number, range: Range = [value, value]): [string, string] {
  const wide = isWide(range, value) ? ['wide range'] : []
  if (!goal) return ['', wide.join()]
  const isReached = (measured: number) => ('min' in goal ? measured >= goal.min : measured <= goal.max)
  const [one, other] = range.map(isReached)
  const reached = one !== other ? 'undecided' : one ? 'reached' : 'missed'
  return ['min' in goal ? `≥ ${goal.min}` : `≤ ${goal.max}`, [reached, ...wide].join(', ')]
}
