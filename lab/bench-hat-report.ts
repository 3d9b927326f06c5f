import type { BenchDocument } from './bench-frame.ts'
import { hatFigure } from './bench-hat-figure.ts'
import { hatPage } from './bench-hat-page.ts'
import { tablesOf } from './bench-hat-tables.ts'
import { layOutTable } from './table.ts'

/** What is printed without --json. */
export function hatTables(document: BenchDocument): string[] {
  return tablesOf(document).flatMap(({ title, head, rows }) => [title, '', ...layOutTable(head, rows), ''])
}

/** Figure and page of `brim bench hat --save`. */
export function reportHat(document: BenchDocument, goals: readonly string[][]): { svg: string; markdown: string } {
  return { svg: hatFigure(document), markdown: hatPage(document, goals) }
}
