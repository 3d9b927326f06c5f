import { layOutTable } from '../../plot/table.ts'
import type { BenchDocument } from '../frame.ts'
import { hatFigure } from './figure.ts'
import { hatPage } from './page.ts'
import { tablesOf } from './tables.ts'

/** What is printed without --json. */
export function hatTables(document: BenchDocument): string[] {
  return tablesOf(document).flatMap(({ title, head, rows }) => [title, '', ...layOutTable(head, rows), ''])
}

/** Figure and page of `brim bench hat --save`. */
export function reportHat(document: BenchDocument, goals: readonly string[][]): { svg: string; markdown: string } {
  return { svg: hatFigure(document), markdown: hatPage(document, goals) }
}
