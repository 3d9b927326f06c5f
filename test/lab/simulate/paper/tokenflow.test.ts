import { describe, expect, it } from 'vitest'
import { renderFigure } from '../../../../lab/plot/plot.ts'
import { paperCells, paperSummary } from '../../../../lab/simulate/paper/cells.ts'
import { unexplained } from '../../../../lab/simulate/paper/comparison.ts'
import { tokenFlowPaperBench } from '../../../../lab/simulate/paper/tokenflow/bench.ts'
import { comparedRuns, type FlowRun, flowRun } from '../../../../lab/simulate/paper/tokenflow/runs.ts'
import { cases, nameOf, paper, scenarioOf, traceOf } from '../../../../lab/simulate/paper/tokenflow/settings.ts'
import { runScenario } from '../../../../lab/simulate/run/run-scenario.ts'

/** Every case as if all servers were alike, apart from what `change` says. */
const runs = (change: (run: FlowRun) => Partial<FlowRun> = () => ({})): FlowRun[] =>
  cases
    .filter(({ setup }) => traceOf(setup) === undefined)
    .flatMap((one) =>
      [1, 2].map((seed) => {
        const run: FlowRun = {
          ...{ ...one, seed, totalS: 100, effectivePerS: 1_000, rawPerS: 2_000, meanTtftS: 10, p50TtftS: 10, p99TtftS: 50 },
          ...{ stalledS: 1, qos: 900, preemptions: 5, movedGb: 3 },
        }
        return { ...run, ...change(run) }
      }),
    )
const cellOf = (all: readonly FlowRun[], place: string, metric: RegExp) =>
  paperCells(paper, comparedRuns(all)).find((cell) => cell.place === place && metric.test(`${cell.row}: ${cell.metric}`))!

describe('paper tokenflow', () => {
  it('runs every case once', () => {
    expect(new Set(cases.map(nameOf)).size).toBe(cases.length)
  })

  it('compares with SGLang, takes the best set-up, and means over seeds', () => {
    const all = runs(({ server, setup, seed }) => ({
      p99TtftS: server === 'TokenFlow' ? (setup === 'H200 (a)' ? 10 * seed : 40) : server === 'Brim' ? 5 : 50,
    }))
    expect(cellOf(all, 'Fig. 16', /P99/)).toMatchObject({ ours: -70, improved: -90, paper: -80.2 })
  })

  it('sets the ablation in relation to the whole', () => {
    const all = runs(({ without, server }) => (without === 'offload' && server === 'TokenFlow' ? { totalS: 190 } : {}))
    expect(cellOf(all, 'Table 2', /without offload: total, over/)).toMatchObject({ ours: 1.9, improved: 1 })
    expect(cellOf(all, 'Table 2', /without offload: total$/)).toMatchObject({ ours: 190, paper: 127.28 })
  })

  it('compares readers of one rate with each other', () => {
    const all = runs(({ server, tokensPerS }) =>
      tokensPerS === 30 ? { effectivePerS: server === 'SGLang' ? 500 : 750 } : { effectivePerS: 1_000 },
    )
    expect(cellOf(all, 'Fig. 20', /30 tokens/)).toMatchObject({ ours: 50 })
    expect(cellOf(all, 'Fig. 20', /20 tokens/)).toMatchObject({ ours: 0 })
  })

  it('has a remark exactly where figures differ by more than a quarter', () => {
    const cells = paperCells(paper, comparedRuns(runs()))
    expect(cells.filter(({ remark, ours, paper }) => remark && Math.abs(ours - paper!) <= Math.abs(paper!) / 4)).toEqual([])
    expect(unexplained(cells).map(({ metric }) => metric)).toContain('P99 TTFT, greatest change against SGLang')
    expect(paperSummary(paper, comparedRuns(runs())).unexplainedCells).toBe(unexplained(cells).length)
  })

  it('draws its figure', () => {
    const document = { bench: 'paper-tokenflow', conditions: { seeds: 2 }, summary: {}, runs: runs() }
    expect(renderFigure(tokenFlowPaperBench.report.figure(document))).toContain('Table 2')
    expect(tokenFlowPaperBench.report.conditions(document)).toContain('2 seeds')
  })

  it('answers a small part of a burst sooner than SGLang', async () => {
    const small = async (server: 'SGLang' | 'TokenFlow') => {
      const scenario = scenarioOf({ setup: '4090 (b)', server }, 1)
      const workload = { ...scenario.workload, requests: 12, outputTokens: 300, readers: [{ tokensPerS: 5, share: 1 }] }
      // Memory for the KV of three whole answers.
      const cloud = { ...scenario.cloud!, memoryShare: 0.601 }
      return flowRun({ setup: '4090 (b)', server }, 1, await runScenario({ ...scenario, workload, cloud }))
    }
    const [sglang, tokenflow] = [await small('SGLang'), await small('TokenFlow')]
    expect(tokenflow.p99TtftS).toBeLessThan(0.5 * sglang.p99TtftS)
    expect(tokenflow.preemptions).toBeGreaterThan(0)
  })
})
