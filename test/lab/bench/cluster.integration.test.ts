import { expect, it } from 'vitest'
import { clusterBench, measureCluster } from '../../../lab/bench/cluster/bench.ts'
import { expectFigures } from '../../support/bench-result.ts'
import { mosquittoMissing } from '../../support/broker.ts'
import { captureIo } from '../../support/captured-io.ts'
import { postgresMissing } from '../../support/postgres.ts'

it.skipIf(postgresMissing() || mosquittoMissing())(
  'bench cluster kills a primary under load, and loses, repeats and forgets no job',
  async () => {
    const { io } = captureIo({ env: process.env as Record<string, string> })
    const effort = { faults: ['kill the primary'], devices: 3, agents: 2, perS: 10, requests: 4, pauseMs: 0 } as const
    const measured = await measureCluster(effort, { quick: true, io, progress: io.err })
    const result = clusterBench.resultOf(measured)
    expect(result.summary).toMatchObject({ lost: 0, doubled: 0, stuck: 0, answersBroken: 0, askedBroken: 0 })
    for (const asked of ['fullAnswers', 'sketches']) expect(result.summary[asked]).toBeGreaterThan(0)
    // Which of its answers are at the process that is killed is left to chance.
    const byChance = ['stallP99S', 'movedStallMaxS']
    expectFigures(clusterBench, result, ['handOverMaxS', 'databaseOutageS', 'brokerOutageS', ...byChance])
    expect(measured.runs.some((run) => run.what === 'answer' && run.stallS !== null)).toBe(true)
  },
  120_000,
)
