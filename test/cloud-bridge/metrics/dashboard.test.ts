import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { createBridgeMetrics } from '../../../cloud-bridge/metrics/bridge-metrics.ts'
import { projectRoot } from '../../../core/kit/base/version.ts'
import { metricsPage } from '../../../scripts/docs/metrics-page.ts'

interface Dashboard {
  panels: { title: string; gridPos: { x: number; y: number; w: number; h: number }; targets?: { expr: string }[] }[]
}
const { panels }: Dashboard = JSON.parse(readFileSync(new URL('docs/grafana-dashboard.json', projectRoot), 'utf8'))
/** Metrics as queries name them: a histogram has three. */
const known = new Set(
  [...metricsPage().matchAll(/^\| `(\w+)` \| (\w+)/gm)].flatMap(([, name, type]) =>
    type === 'histogram' ? ['_bucket', '_sum', '_count'].map((part) => name + part) : [name],
  ),
)

describe('the dashboard', () => {
  it('asks only for metrics that bridge and agent have', async () => {
    const processes = await createBridgeMetrics(5).text()
    const asked = panels.flatMap(({ targets = [] }) => targets.flatMap(({ expr }) => expr.match(/\b(brim|process)_\w+/g) ?? []))
    expect(asked.filter((name) => name.startsWith('brim_agent_')).length).toBeGreaterThan(10)
    expect(asked.length).toBeGreaterThan(40)
    expect(asked.filter((name) => !known.has(name) && !processes.includes(`${name} `))).toEqual([])
  })

  it('shows each of its panels beside the others', () => {
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, at) => `${x + (at % w)},${y + Math.floor(at / w)}`),
    )
    expect(new Set(cells).size).toBe(cells.length)
  })
})
