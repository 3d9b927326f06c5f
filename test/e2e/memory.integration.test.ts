import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'vitest'
import { ensureDemoBundle } from '../../lab/cluster/demo-bundles.ts'
import { type BrimProcess, startBrim } from '../../lab/cluster/processes.ts'
import { startTestBridge } from '../support/bridge.ts'
import { postJson } from '../support/post-json.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'

const dir = shared(tempDir)

const residentMb = ({ pid }: BrimProcess) =>
  Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1_024

const startAgent = (id: string, args: readonly string[]) =>
  startBrim(['agent', 'run', '--id', id, '--state-dir', join(dir.path, id), '--api-port', '0', ...args], { env: process.env })

/** Of the process at rest, which it reaches 10 to 20 s after its last answer. */
const atRest = { timeout: 40_000, interval: 500 }

// Concurrent, because both mostly wait.
describe.skipIf(process.platform !== 'linux')('the resident memory of an agent at rest', { concurrent: true }, () => {
  it('is at most 100 MB with the demo model, after answers too', async ({ expect }) => {
    const bundle = await ensureDemoBundle('llm')
    await using bridge = await startTestBridge({ bundle, stateDir: join(dir.path, 'bridge') })
    const agent = await startAgent('jetson-01', ['--bundle', bundle, '--bridge', bridge.mqttUrl])
    try {
      const ask = () =>
        postJson(`${agent.ready.apiUrl}/v1/completions`, { prompt: 'Is there a good place to stay', max_tokens: 64 })
      await expect.poll(async () => (await ask()).status).toBe(200)
      for (let answers = 0; answers < 3; answers++) expect(await (await ask()).json()).toHaveProperty('choices')
      await expect.poll(() => residentMb(agent), atRest).toBeLessThanOrEqual(100)
    } finally {
      await agent.stop()
    }
  }, 120_000)

  it('is at most 80 MB without a model', async ({ expect }) => {
    const agent = await startAgent('empty', ['--bridge', 'mqtt://127.0.0.1:1'])
    try {
      expect(agent.ready).toMatchObject({ modelId: null })
      await expect.poll(() => residentMb(agent), atRest).toBeLessThanOrEqual(80)
    } finally {
      await agent.stop()
    }
  }, 60_000)
})
