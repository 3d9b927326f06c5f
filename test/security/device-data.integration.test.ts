import { statSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { endlessAnswers, telemetryFlood } from '../../lab/attack/device-data.ts'
import type { Flood } from '../../lab/attack/flood.ts'
import { startTestBridge } from '../support/bridge.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'
import { tinyBundle } from '../support/tiny-bundle.ts'

const kb = 1_024
const limits = { jobAttemptBytes: 256 * kb, deviceTelemetryBytes: 512 * kb, deviceJobBytesPerDay: 2 ** 20 }

const dir = shared(tempDir)
const bundle = shared(tinyBundle)
let bridge: Awaited<ReturnType<typeof startTestBridge>>
beforeAll(async () => {
  bridge = await startTestBridge({ bundle: bundle.path, stateDir: join(dir.path, 'bridge'), limits })
})
afterAll(() => bridge.close())

const sizeOf = (name: string) =>
  [name, `${name}-wal`].reduce((sum, file) => sum + statSync(join(dir.path, 'bridge', file)).size, 0)

/** Runs the flood until `isDone`. */
async function attackUntil(flood: Flood, isDone: () => Promise<boolean>) {
  const stop = new AbortController()
  const { mqttUrl, httpUrl, dataUrl } = bridge
  const attack = flood.run({ mqttUrl, httpUrl, dataUrl }, stop.signal)
  await expect.poll(isDone).toBe(true)
  stop.abort()
  return attack
}

it('answers without end are refused, and leave a bounded database', async () => {
  const jobsOf = async (state: string) => {
    const { jobs } = (await (await fetch(`${bridge.httpUrl}/v1/jobs?state=${state}`)).json()) as { jobs: { error: unknown }[] }
    return jobs
  }
  await attackUntil(endlessAnswers, async () => (await jobsOf('REJECTED')).length >= 2)
  expect((await jobsOf('REJECTED'))[0]).toMatchObject({ error: { code: 'REQUEST_INVALID' } })
  expect(sizeOf('jobs.sqlite')).toBeLessThan(8 * 2 ** 20)
})

it('telemetry and log lines without end leave a bounded database', async () => {
  const samples = async () => {
    const response = await fetch(`${bridge.httpUrl}/v1/devices/attacker/telemetry?limit=1000`)
    return response.ok ? ((await response.json()) as { samples: object[] }).samples : []
  }
  let most = 0
  await attackUntil(telemetryFlood, async () => {
    const { length } = await samples()
    // It shrinks when the limit is reached.
    const isTrimmed = length < most
    most = Math.max(most, length)
    return isTrimmed
  })
  const stored = JSON.stringify(await samples()).length
  expect(stored).toBeLessThan(limits.deviceTelemetryBytes)
  expect(stored).toBeGreaterThan(100 * kb)
})
