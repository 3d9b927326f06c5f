import { expect } from 'vitest'
import type { Bench, BenchResult } from '../../lab/frame/bench.ts'
import { benchPage } from '../../lab/frame/page.ts'
import { renderFigure } from '../../lab/plot/plot.ts'

const machine = { cpu: 'c', cores: 2, memoryGiB: 1, platform: 'p', node: 'n', loadAverageBefore: 0, loadAverageAfter: 0 }

/**
 * Expects every figure of a benchmark's result to be a finite number, and page and plot to be made of it.
 * @param missing figures that a small run does not have
 */
export function expectFigures(
  { name, report, goals }: Pick<Bench, 'name' | 'report' | 'goals'>,
  result: BenchResult,
  missing: readonly string[] = [],
): void {
  const { summary } = result
  expect(Object.keys(summary), `figures of ${name} with goals`).toEqual(expect.arrayContaining(Object.keys(goals)))
  for (const [figure, value] of Object.entries(summary)) {
    if (missing.includes(figure)) continue
    expect(Number.isFinite(value), `${name}: ${figure} is ${value}`).toBe(true)
  }
  const conditions = { ...machine, command: 'c', startedAt: 's', commit: 'x', ...result.conditions }
  const document = { bench: name, ...result, conditions }
  expect(benchPage(document, report, goals)).not.toMatch(/undefined|NaN|Infinity/)
  expect(renderFigure(report.figure(document))).toMatch(/^<svg/)
}
