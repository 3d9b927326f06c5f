import { expect, it } from 'vitest'
import type { Expansion } from '../../core/wire/protocol/expansion.ts'
import type { JobDetails } from '../../core/wire/protocol/http/jobs.ts'
import { Cluster } from '../../lab/cluster/cluster.ts'
import { ensureDemoBundle } from '../../lab/cluster/demo-bundles.ts'
import { buildTextBundle } from '../support/agent-world.ts'
import { tempDir } from '../support/temp-dir.ts'

it('an agent that is killed in the middle of an expansion repeats only the groups that it had not finished', {
  timeout: 120_000,
}, async () => {
  using dir = tempDir()
  const slm = await ensureDemoBundle('slm-deep')
  await using cluster = await Cluster.create({ bundle: await buildTextBundle(dir.path), env: process.env })
  const bridge = await cluster.startBridge()
  const agent = await cluster.startAgent({ id: 'jetson-01', bridges: [bridge.ready.mqttUrl], args: ['--slm', slm] })

  const url = `${bridge.ready.httpUrl}/v1/jobs`
  const sketch = Array.from({ length: 60 }, (_, at) => `keeper lamp night ${at} boat`)
  const body = JSON.stringify({
    kind: 'pice.expand',
    device: 'jetson-01',
    input: { sketches: [{ prompt: 'Tell me a story.', sketch, expectedTokens: 1_200 }] },
  })
  const submit = () => fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
  let id: string | undefined
  // Until the bridge has read the agent's state, it does not know the device.
  await expect
    .poll(async () => {
      id = ((await (await submit()).json()) as { id?: string }).id
      return id
    })
    .toBeDefined()
  const show = async () => (await (await fetch(`${url}/${id}`)).json()) as JobDetails
  const sentences = async () => {
    const { events } = (await (await fetch(`${url}/${id}/events`)).json()) as { events: { type: string }[] }
    return events.filter(({ type }) => type === 'sentence').length
  }
  await expect.poll(sentences, { timeout: 60_000, interval: 20 }).toBeGreaterThan(4)
  await agent.restart()

  await expect.poll(async () => (await show()).state, { timeout: 60_000 }).toBe('SUCCEEDED')
  const { result, attempt } = await show()
  expect(attempt).toBe(2)
  const { sentences: written, runs } = result as Expansion
  expect(new Set(written.map(({ sentence }) => sentence)).size).toBe(60)
  expect(runs[0]!.tokens).toBeLessThan(written.reduce((sum, { tokens }) => sum + tokens, 0))
})
