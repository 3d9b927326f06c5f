import { describe, expect, it } from 'vitest'
import { failoverBench } from '../../../lab/bench/failover/bench.ts'
import { faultKinds, planRuns } from '../../../lab/bench/failover/plan.ts'
import { type FailoverRun, touchedNeighbours } from '../../../lab/bench/failover/report.ts'
import { buildTextBundle } from '../../support/agent-world.ts'
import { captureIo } from '../../support/captured-io.ts'
import { tempDir } from '../../support/temp-dir.ts'

describe('the plan of faults', () => {
  it('follows from its seed, and holds one fault of each kind in every five runs', () => {
    const plan = planRuns(40, 7, 160)
    expect(planRuns(40, 7, 160)).toEqual(plan)
    expect(planRuns(40, 8, 160)).not.toEqual(plan)
    for (let at = 0; at < plan.length; at += 5) {
      const kinds = plan.slice(at, at + 5).map(({ kind }) => kind)
      expect(kinds.sort()).toEqual([...faultKinds].sort())
    }
  })

  it('prompts with tokens of the vocabulary, and hits prefill as well as the answer', () => {
    const plan = planRuns(100, 7, 160)
    expect(plan.flatMap(({ question }) => question.prompt).every((id) => id >= 0 && id < 160)).toBe(true)
    expect(plan.some(({ moment }) => moment === 0)).toBe(true)
    expect(plan.some(({ moment }) => moment > 0.5)).toBe(true)
  })
})

const run: FailoverRun = {
  kind: 'cut',
  bridge: 'bridge-a',
  promptTokens: 9,
  temperature: 0,
  moment: 0.3,
  tokens: 20,
  identical: true,
  duplicatedTokens: 0,
  failovers: 1,
  lostS: 0.5,
  neighbours: [{ identical: true, failovers: 0, error: null }],
  error: null,
}

const summaryOf = (runs: readonly FailoverRun[]) => failoverBench.resultOf({ conditions: {}, runs }).summary

describe('the failover figures', () => {
  it('count a neighbour that had to move, unless its own bridge was killed or hung', () => {
    const moved = [{ identical: true, failovers: 1, error: null }]
    expect(touchedNeighbours(run)).toBe(0)
    expect(touchedNeighbours({ ...run, neighbours: moved })).toBe(1)
    for (const kind of ['kill', 'hang'] as const) expect(touchedNeighbours({ ...run, kind, neighbours: moved })).toBe(0)
    expect(touchedNeighbours({ ...run, kind: 'kill', neighbours: [{ identical: false, failovers: 1, error: null }] })).toBe(1)
  })

  it('ignore the waiting time of a fault that came too late to matter', () => {
    const summary = summaryOf([run, { ...run, failovers: 0, lostS: 0 }, { ...run, kind: 'kill', lostS: 2, identical: false }])
    expect(summary).toMatchObject({
      runs: 3,
      failedOver: 2,
      different: 1,
      lostSMedianCut: 0.5,
      lostSMedianStall: null,
      lostSMax: 2,
    })
  })

  it('are shown by kind of fault', () => {
    const document = { bench: 'failover', conditions: { model: 'tiny' }, summary: summaryOf([run]), runs: [run] }
    const [table] = failoverBench.report.tables!(document)
    expect(table!.rows).toContainEqual(['cut', '1', '1', '1', '0', '0', '0.50', '0.50'])
    expect(failoverBench.report.figure(document).panels[0]).toMatchObject({ groups: [{ label: 'cut' }] })
  })
})

describe('two bridges and their devices as processes', () => {
  it('give the same answers through kills, hangs, cuts, stalls and garbage as without, and no token twice', {
    timeout: 120_000,
  }, async () => {
    using dir = tempDir()
    const seed = 4
    const { io, err } = captureIo({ env: { PATH: '' } })
    const context = { quick: true, io, progress: io.err }
    const options = { bundle: await buildTextBundle(dir.path), runs: 10, seed, maxTokens: 32 }
    const { summary, runs } = await failoverBench.run(context, options)
    expect(summary, `seed ${seed}\n${err()}`).toMatchObject({ runs: 10, different: 0, duplicatedTokens: 0, touchedNeighbours: 0 })
    // Some faults come too late to matter, but not all of them.
    expect(summary.failedOver).toBeGreaterThanOrEqual(7)
    expect(new Set((runs as FailoverRun[]).map(({ kind }) => kind)).size).toBe(faultKinds.length)
  })
})
