import { expect, it } from 'vitest'
import { fleetBench, measureFleet } from '../../../lab/bench/fleet/bench.ts'
import { buildTextBundle } from '../../support/agent-world.ts'
import { captureIo } from '../../support/captured-io.ts'
import { tempDir } from '../../support/temp-dir.ts'

it('connects a fleet that reports and works, and comes back after the bridge was killed', { timeout: 60_000 }, async () => {
  using dir = tempDir()
  const { io } = captureIo({ env: { PATH: '' } })
  const plan = {
    bundle: await buildTextBundle(dir.path),
    brokers: ['embedded'] as const,
    sizes: [20],
    restS: 1,
    workS: 1,
    statuses: 1,
  }
  const measured = await measureFleet({ ...plan, sampleEveryS: 0.5 }, { io, quick: true, progress() {} })
  const result = fleetBench.resultOf(measured)
  expect(result.summary).toMatchObject({ mostDevices: 20 })
  expect(result.summary.telemetryP99Ms).toBeGreaterThan(0)
  const [grown, work, restart] = result.runs
  expect(grown).toMatchObject({ what: 'grow', devices: 20, lost: 0, isBroken: false })
  expect(work).toMatchObject({ what: 'work', fleetStatusS: [expect.any(Number)] })
  expect((work as { jobs: number }).jobs).toBeGreaterThan(0)
  expect(restart).toMatchObject({ what: 'restart', backS: expect.any(Number) })
  expect(fleetBench.report.findings!({ bench: 'fleet', ...result })).toContain('embedded: not broken at 20 devices')
})
