import { existsSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import os from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, it, vi } from 'vitest'
import { benchDisco, discoBench } from '../../../lab/bench/disco/bench.ts'
import { discoPlanBench } from '../../../lab/bench/disco-plan.ts'
import { measureSimulator, simulatorBench } from '../../../lab/bench/simulator/bench.ts'
import { measureTelemetry, telemetryBench } from '../../../lab/bench/telemetry.ts'
import { tokenFlowPlanBench } from '../../../lab/bench/tokenflow-plan.ts'
import type { BenchContext } from '../../../lab/frame/bench.ts'
import { benchFleet, fleetBench } from '../../../lab/simulate/fleet/bench.ts'
import * as disco from '../../../lab/simulate/paper/disco/bench.ts'
import * as hat from '../../../lab/simulate/paper/hat/bench.ts'
import * as pice from '../../../lab/simulate/paper/pice/bench.ts'
import * as tokenFlow from '../../../lab/simulate/paper/tokenflow/bench.ts'
import { defaultDataFolder } from '../../../lab/simulate/run/data-folder.ts'
import { benchScale, scaleBench } from '../../../lab/simulate/scale/bench.ts'
import { expectFigures } from '../../support/bench-result.ts'
import { captureIo } from '../../support/captured-io.ts'

/** The smallest run of each benchmark that has no test of its own for one. */
const context = (): BenchContext => {
  const { io } = captureIo({ env: process.env as Record<string, string> })
  return { quick: true, io, progress: io.err }
}

// Runs so small take less time here than threads that load and compile the simulator again.
const cores = vi.spyOn(os, 'availableParallelism')
beforeAll(() => {
  cores.mockReturnValue(1)
  syncBuiltinESMExports()
})
afterAll(() => {
  cores.mockRestore()
  syncBuiltinESMExports()
})

const data = defaultDataFolder()
const dataMissing = !existsSync(join(data, 'mooncake'))
if (dataMissing) console.log(`skipped, missing: the traces in ${data}`)

describe('a small run of every benchmark has its figures, a page and a plot:', { timeout: 120_000 }, () => {
  it('tokenflow-plan', async () => {
    expectFigures(tokenFlowPlanBench, await tokenFlowPlanBench.run(context(), {}))
  })

  it('disco-plan', async () => {
    expectFigures(discoPlanBench, await discoPlanBench.run(context(), {}))
  })

  it('telemetry', async () => {
    const measured = await measureTelemetry(['this machine', 'other'], 2, context())
    expectFigures(telemetryBench, telemetryBench.resultOf(measured))
  })

  it('simulator', async () => {
    const measured = await measureSimulator({ events: 5_000, requests: 20, waitingRequests: 1_000 }, context())
    expectFigures(simulatorBench, simulatorBench.resultOf(measured))
  })

  it.skipIf(dataMissing)('disco', async () => {
    const plan = {
      seeds: 1,
      // One of either kind.
      traces: ['replicate_70b', 'groq_70b'] as const,
      ttft: { alpaca: { requests: 8, budgets: [0.5] }, azure: { requests: 4, budgets: [0.5] } },
      cost: { requests: 1, budgets: [0.5] },
      // Lessons of three agents take too long here.
      liveRequests: 0,
      wireShare: 0.05,
    }
    expectFigures(discoBench, await benchDisco(plan, data, context()), ['liveOverReplay'])
  })

  it('simulate scale', async () => {
    expectFigures(
      scaleBench,
      await benchScale(
        [
          { devices: 50, seconds: 3 },
          { devices: 1_200, seconds: 2 },
        ],
        context(),
      ),
    )
  })

  it.skipIf(dataMissing)('simulate fleet', async () => {
    const plan = {
      ...{ counts: [8], overloaded: 8, studied: 8, ablated: [8], exactness: 16, seeds: [1] },
      ...{ windowS: 4, warmUpS: 1, coolDownS: 1 },
    }
    expectFigures(fleetBench, await benchFleet(plan, data, context()))
  })

  it('simulate paper hat', async () => {
    expectFigures(hat.hatPaperBench, await hat.measurePaper(2, context()))
  })

  it('simulate paper pice', async () => {
    expectFigures(pice.picePaperBench, await pice.measurePaper({ isQuick: true, seeds: 1, share: 0.03 }, context()))
  })

  it('simulate paper disco', async () => {
    const plan = {
      isQuick: true,
      seeds: 1,
      ttft: { requests: 16 },
      cost: { requests: 2, seeds: 1 },
      batches: 5,
    }
    expectFigures(disco.discoPaperBench, await disco.measurePaper(plan, context()))
  })

  it('simulate paper tokenflow', async () => {
    expectFigures(
      tokenFlow.tokenFlowPaperBench,
      await tokenFlow.measurePaper({ seeds: 1, share: 0.01 }, '/nonexistent', context()),
    )
  })
})
