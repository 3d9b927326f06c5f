import type { Goals, Summary, Table } from './bench.ts'

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
