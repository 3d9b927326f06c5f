import { z } from 'zod'
import type { Summary } from '../../frame/bench.ts'
import { select } from '../../frame/runs.ts'
import { countsOf, isWithin, type PaperCell } from './comparison.ts'
import type { PaperFile, Scalar, Selection, When } from './paper-file.ts'
import { combinationsOf, type PaperRun, quantityOf } from './quantity.ts'
import { fill, namesOf, scopeOf, type TextScope } from './text.ts'

type Group = PaperFile['cells'][number]
type Cell = Group['cells'][number]

/** Every figure that the paper prints, beside the simulated one. */
export const paperCells = (paper: PaperFile, runs: readonly PaperRun[]): readonly PaperCell[] =>
  paper.cells.flatMap((group) => {
    if (select(runs, group.needs).length === 0) return []
    return combinationsOf(group.each, select(runs, group.of)).flatMap((varied) =>
      group.cells.flatMap((cell) => cellOf(paper, runs, group, cell, varied)),
    )
  })

export function paperSummary(paper: PaperFile, runs: readonly PaperRun[]): Summary {
  const counts = countsOf(paperCells(paper, runs))
  return Object.fromEntries([
    ...Object.entries(paper.counts).map(([name, count]) => [name, counts[count]]),
    ...Object.entries(paper.summary).map(([name, quantity]) => [name, quantityOf(quantity, runs)]),
  ])
}

function cellOf(paper: PaperFile, runs: readonly PaperRun[], group: Group, cell: Cell, varied: Selection): PaperCell[] {
  const base = { ...group.of, ...varied }
  const published = cell.paper && publishedAt(paper, cell.paper, base)
  if (published === undefined) return []
  const ours = quantityOf(cell, runs, base)
  if (ours === null) return []
  const { improved } = cell
  const added = improved && matches(improved.when, base) ? quantityOf(cell, runs, base, improved.of) : null
  const names = namesOf(paper, base)
  const made = {
    place: group.place,
    row: fill(group.row, names),
    metric: fill(cell.metric, names),
    paper: published,
    ours,
    ...(added !== null && { improved: added }),
    unit: cell.unit,
  }
  const remark = made.paper !== null && isWithin(made) ? undefined : remarkOn(cell, names, runs, base)
  return [remark === undefined ? made : { ...made, remark }]
}

function remarkOn({ remarks }: Cell, names: TextScope, runs: readonly PaperRun[], base: Selection): string | undefined {
  const found = remarks.find(({ when }) => matches(when, base))
  return found && fill(found.text, { ...names, ...scopeOf(found.values, runs, base) })
}

const matches = (when: When, varied: Selection): boolean =>
  Object.entries(when).every(([name, wanted]) => [wanted].flat().includes(varied[name]!))

/** @param path whose `{name}` stands for what the runs have */
function publishedAt({ published }: PaperFile, path: readonly Scalar[], base: Selection): number | null | undefined {
  const value = path.reduce<unknown>((whole, part) => {
    const key = typeof part === 'string' ? fill(part, base) : part
    return (whole as Readonly<Record<string, unknown>> | undefined)?.[key]
  }, published)
  return z.number().nullable().optional().parse(value)
}
