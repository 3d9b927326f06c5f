import type { BarPanel, LinePanel } from '../plot/plot.ts'
import { groupBy } from './statistics.ts'

/** Bars of one name have one colour. Null: nothing was measured, and there is no bar. */
export type Bar = readonly [group: string, name: string, value: number | null]

export function barPanel(title: string, yLabel: string, bars: readonly Bar[], yMax?: number): BarPanel {
  const groups = groupBy(bars, ([group]) => group).map((own) => ({
    label: own[0]![0],
    bars: own.flatMap(([, name, value]) => (value === null ? [] : [{ name, value }])),
  }))
  const shown = groups.filter((group) => group.bars.length > 0)
  return { kind: 'bars', title, yLabel, ...(yMax !== undefined && { yMax }), groups: shown }
}

/** Ascending x in each line. Null: nothing was measured. */
export type Point = readonly [line: string, x: number, y: number | null]

export const linePanel = (title: string, xLabel: string, yLabel: string, points: readonly Point[]): LinePanel => ({
  kind: 'lines',
  title,
  xLabel,
  yLabel,
  series: groupBy(points, ([line]) => line).map((own) => ({
    name: own[0]![0],
    points: own.flatMap(([, x, y]) => (y === null ? [] : [[x, y] as const])),
  })),
})
