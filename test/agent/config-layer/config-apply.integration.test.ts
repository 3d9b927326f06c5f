import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { run } from '../../../brim.ts'
import { terminated } from '../../../core/kit/base/termination.ts'
import { buildTextBundle } from '../../support/agent-world.ts'
import { startTestBridge, type TestBridge } from '../../support/bridge.ts'
import { captureIo } from '../../support/captured-io.ts'
import { tempDir } from '../../support/temp-dir.ts'

// A bridge and `brim agent run`, in this process.
const dir = tempDir()
const file = join(dir.path, 'agent.yaml')
const stateDir = join(dir.path, 'device')
const layerFile = join(stateDir, 'fleet-config.json')
const stop = new AbortController()
const output = captureIo({ signal: stop.signal, env: { HOME: dir.path } })
let bridge: TestBridge
let agent: Promise<number>

beforeAll(async () => {
  const bundle = await buildTextBundle(dir.path, { adapter: false })
  bridge = await startTestBridge({ bundle, stateDir: join(dir.path, 'bridge'), chunkTokens: 16 })
  const lines = {
    id: 'jetson-01',
    bundle,
    bridge: bridge.mqttUrl,
    'api-port': 0,
    'state-dir': stateDir,
    heartbeat: 5,
    'log-level': 'silent',
  }
  const limits = 'limit: [healthBridgeS=20, healthProbeS=10, healthSoakS=1]'
  writeFileSync(
    file,
    `${Object.entries(lines)
      .map(([name, value]) => `${name}: ${value}`)
      .join('\n')}\n${limits}\n`,
  )
  // As after a power cut: a trial that three starts have not decided, and an option that this release does not know.
  mkdirSync(stateDir, { mode: 0o700 })
  const trial = { change: { threads: 3 }, job: 'bridge-1 0-0', starts: 3 }
  writeFileSync(layerFile, JSON.stringify({ kept: { telemetry: 2, 'of-a-newer-release': 1 }, trial }))
  agent = run(['agent', 'run', '--config', file, '--json'], output.io)
}, 60_000)

afterAll(async () => {
  stop.abort(terminated)
  await agent
  await bridge.close()
  dir[Symbol.dispose]()
})

const starts = () =>
  output
    .out()
    .split('\n')
    .filter((line) => line.includes('"ready"')).length

/** The fleet's layer as `brim agent config show` reads it. */
async function fleetSettings(): Promise<Record<string, unknown>> {
  const { io, out } = captureIo({ env: { HOME: dir.path } })
  await run(['agent', 'config', 'show', '--config', file, '--json'], io)
  const { options } = JSON.parse(out()) as { options: { name: string; value: unknown; source: string }[] }
  return Object.fromEntries(options.filter(({ source }) => source === 'fleet').map(({ name, value }) => [name, value]))
}

/** As the bridge lists it. */
async function device(): Promise<unknown> {
  const { devices } = (await (await fetch(`${bridge.httpUrl}/v1/devices`)).json()) as { devices: unknown[] }
  return devices[0]
}

interface Ended {
  state: string
  result: Record<string, unknown> | null
  error: { code: string; message: string } | null
}

/** Submits a job `config.apply`, and waits for its end. */
const apply = (settings: object, probe?: object) => ended('config.apply', { settings, probe })

async function ended(kind: string, input: object): Promise<Ended> {
  const submission = { kind, device: 'jetson-01', input }
  const post = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(submission) }
  const accepted = await fetch(`${bridge.httpUrl}/v1/jobs`, post)
  const { id, ...rest } = (await accepted.json()) as { id: string }
  expect(accepted.ok, JSON.stringify(rest)).toBe(true)
  let job: Ended = { state: '', result: null, error: null }
  await expect
    .poll(
      async () => {
        job = (await (await fetch(`${bridge.httpUrl}/v1/jobs/${id}`)).json()) as Ended
        return job.state
      },
      { timeout: 30_000, interval: 100 },
    )
    .toMatch(/SUCCEEDED|FAILED|REJECTED|TIMED_OUT/)
  return job
}

it('starts with what the fleet has set before, without what failed and what is unknown', async () => {
  await expect.poll(starts).toBe(1)
  // The agent is ready before the bridge has heard so.
  await expect.poll(device).toMatchObject({
    ...{ id: 'jetson-01', state: 'ready' },
    computing: { llm: { provider: expect.any(String), reason: expect.any(String) } },
  })
  expect(await fleetSettings()).toEqual({ telemetry: 2 })
  expect(readFileSync(layerFile, 'utf8')).toContain('the agent ended 3 times')
})

it('applies options after another start and a probe, and leaves those of the owner', async () => {
  const settings = { telemetry: 1, heartbeat: 60, 'dead-band': ['C=9'] }
  const job = await apply(settings, { prompt: 'Hello', maxTokens: 2 })
  expect(job.result).toMatchObject({ applied: ['telemetry', 'dead-band'], kept: ['heartbeat'], restarted: true })
  expect(await fleetSettings()).toEqual({ telemetry: 1, 'dead-band': ['C=9'] })
  expect(starts()).toBe(2)
  const [first, second] = output
    .out()
    .split('\n')
    .map((line) => (line ? (JSON.parse(line) as { apiUrl: string }).apiUrl : ''))
  expect(second).toBe(first)
})

it('does not start again where nothing changes', async () => {
  const job = await apply({ telemetry: 1, heartbeat: 90, 'dead-band': ['C=9'] })
  expect(job.result).toMatchObject({ restarted: false })
  expect(starts()).toBe(2)
})

it.each([
  [{ bridge: 'mqtt://evil.example' }, '"bridge" is set by the device\'s owner alone; the fleet may set slm, '],
  [{ padding: false }, '"padding" is set by the device\'s owner alone'],
  [{ telemtry: 1 }, 'no option "telemtry"; did you mean "telemetry"?'],
  [{ threads: 0 }, 'fleet: threads 0 must be at least 1'],
  [{ 'reconnect-max': 1e9 }, 'fleet: reconnect-max 1000000000 must be at most 3600'],
  [{ provider: 'gpu' }, 'fleet: provider gpu must be auto, cpu, webgpu, cuda, or the name of a provider'],
  [{ 'slm-provider': '' }, 'fleet: slm-provider  must be auto, cpu, webgpu, cuda, or the name of a provider'],
  [{ slm: ['/etc'] }, '"slm" must be ids of installed models'],
])('refuses %j and stays as it is', async (settings, problem) => {
  const job = await apply(settings)
  expect(job).toMatchObject({ state: 'REJECTED', error: { code: 'CONFIG_INVALID' } })
  expect(job.error?.message).toContain(problem)
  expect(await fleetSettings()).toMatchObject({ telemetry: 1 })
})

it('returns to the options before where the agent does not start with new ones', async () => {
  const job = await apply({ slm: ['0123456789ab'], telemetry: 3 })
  expect(job).toMatchObject({ state: 'REJECTED', error: { code: 'HEALTH_CHECK_FAILED' } })
  expect(job.error?.message).toContain('no installed model has an id that begins with 0123456789ab')
  expect(await fleetSettings()).toMatchObject({ telemetry: 1 })
  expect(starts()).toBe(3)
})

it('returns to the options before where the probe is not answered', async () => {
  // Beyond the context of the model.
  const job = await apply({ telemetry: 4 }, { prompt: 'word '.repeat(800) })
  expect(job).toMatchObject({ state: 'REJECTED', error: { code: 'HEALTH_CHECK_FAILED' } })
  expect(job.error?.message).toContain('the probe was not answered')
  expect(await fleetSettings()).toMatchObject({ telemetry: 1 })
  expect(starts()).toBe(5)
})

it('returns to the options before where the machine has no such provider', async () => {
  const job = await apply({ provider: 'QNNExecutionProvider', telemetry: 5 })
  expect(job).toMatchObject({ state: 'REJECTED', error: { code: 'HEALTH_CHECK_FAILED' } })
  expect(job.error?.message).toContain('QNNExecutionProvider is not in')
  expect(await fleetSettings()).toMatchObject({ telemetry: 1 })
  expect(starts()).toBe(6)
})

it('returns to them too where an activated model is what such a provider does not open', async () => {
  const { bundles } = (await (await fetch(`${bridge.httpUrl}/v1/bundles`)).json()) as {
    bundles: { modelId: string; manifestSha256: string }[]
  }
  const { modelId, manifestSha256 } = bundles[0]!
  expect(await ended('bundle.install', { modelId, manifestSha256, activate: true })).toMatchObject({ state: 'SUCCEEDED' })
  const job = await apply({ provider: 'QNNExecutionProvider', telemetry: 6 })
  expect(job).toMatchObject({ state: 'REJECTED', error: { code: 'HEALTH_CHECK_FAILED' } })
  expect(job.error?.message).toContain('QNNExecutionProvider is not in')
  await expect.poll(device).toMatchObject({ modelId, computing: { llm: { provider: expect.any(String) } } })
})
