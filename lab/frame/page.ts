import type { BenchDocument, BenchReport, Goals, Summary, Table } from './bench.ts'

/** The Markdown page that --save writes beside a document and its figure. */
export function benchPage(document: BenchDocument, report: BenchReport, goals: Goals): string {
  const { bench, conditions, summary } = document
  const { head, rows } = goalTable(summary, goals)
  const tables = (report.tables?.(document) ?? []).map((table) => `## ${table.title}\n\n${markdownTable(table.head, table.rows)}`)
  const sections = [
    `# ${report.title}`,
    `Measured by \`${conditions.command} --save\` on ${conditions.startedAt}, commit ${conditions.commit ?? 'unknown'}. ` +
      `[${bench}.json](${bench}.json) holds ${report.contents}.`,
    `![${report.figureText}](${bench}.svg)`,
    markdownTable(head, rows),
    ...(report.findings ? [report.findings(document)] : []),
    ...tables,
    '## Conditions',
    report.conditions(document),
  ]
  return `${sections.join('\n\n')}\n`
}

export function markdownTable(head: Table['head'], rows: Table['rows']): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [head, head.map(() => '---'), ...rows].map(line).join('\n')
}

/** One sentence fragment for a page's conditions, such as '2.1 before and 2.4 after'. */
export function loadText({ conditions }: BenchDocument): string {
  const { loadAverageBefore: before, loadAverageAfter: after } = conditions
  return `load average ${Number(before).toFixed(1)} before and ${Number(after).toFixed(1)} after`
}

/** The figures of a summary beside their goals. */
export function goalTable(summary: Summary, goals: Goals): Omit<Table, 'title'> {
  const rows = Object.entries(summary).map(([name, value]) =>
    value === null ? [name, '–', '', ''] : [name, String(Number(value.toPrecision(4))), ...verdict(goals[name], value)],
  )
  return { head: ['figure', 'measured', 'goal', ''], rows }
}

function verdict(goal: Goals[string] | undefined, value: number): [string, string] {
  if (!goal) return ['', '']
  const isReached = 'min' in goal ? value >= goal.min : value <= goal.max
  return ['min' in goal ? `≥ ${goal.min}` : `≤ ${goal.max}`, isReached ? 'reached' : 'missed']
}
