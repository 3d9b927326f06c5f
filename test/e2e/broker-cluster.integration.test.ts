import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openIdentityStore } from '../../cloud-bridge/identity/store.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { isTerminal } from '../../core/policy/jobs/job.ts'
import { JobClient } from '../../lab/cluster/job-client.ts'
import { type AgentWorld, startAgentWorld } from '../support/agent-world.ts'
import { natsMissing } from '../support/broker.ts'
import { enrolDevice } from '../support/enrol-device.ts'
import { type Nats, startNats } from '../support/nats.ts'

const missing = natsMissing()
const devices = ['orin-1', 'orin-2']
let nats: Nats | undefined
let world: AgentWorld | undefined
beforeAll(async () => {
  if (missing) return
  nats = await startNats(3)
  world = await startAgentWorld({ bridge: { auth: true, broker: { url: nats.url, adminFile: nats.adminFile } } })
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
  await nats?.[Symbol.asyncDispose]()
})

it.skipIf(missing)('no job is lost, done twice or stuck when a node of the broker is killed under way', async () => {
  const store = openIdentityStore(join(world!.dir, 'bridge'))
  const apiKey = store.createKey('operator:test', 'test', 'operator').key
  for (const id of devices) await enrolDevice(world!, store, id)
  store.close()
  const agents = await Promise.all(devices.map((id) => world!.startAgent({ id, bridges: undefined })))
  const link = async (apiUrl: string) => (await (await fetch(`${apiUrl}/health`)).json()) as { bridge: string }
  for (const { apiUrl } of agents)
    await expect.poll(() => link(apiUrl)).toMatchObject({ broker: 'connected', bridge: 'connected' })

  const client = new JobClient(world!.bridge.httpUrl, new AbortController().signal, { apiKey })
  const jobs = new Map<string, string>()
  const submit = async (at: number) => {
    const limits = { attempts: 20, timeouts: { acceptS: 2 }, disconnect: { lostAfterS: 5 } }
    const input = { prompt: 'Can you', maxTokens: 24 }
    const key = `job-${at}`
    jobs.set(key, await client.submit({ kind: 'hat.generate', device: devices[at % devices.length], input, ...limits }, key))
  }
  const submitting = (async () => {
    for (let at = 0; at < 60; at++) {
      await submit(at)
      await systemClock.sleep(50)
    }
  })()
  await systemClock.sleep(1_000)
  await nats!.nodes[0]!.kill()
  await submitting
  for (const [key, id] of jobs) {
    await expect.poll(() => client.show(id), { timeout: 40_000 }).toMatchObject({ state: 'SUCCEEDED' })
    const ends = (await client.history(id)).filter((type) => isTerminal(type.toUpperCase() as 'SUCCEEDED'))
    expect(ends).toEqual(['succeeded'])
    expect(await client.submit({ kind: 'hat.generate', input: { prompt: 'Can you' } }, key)).toBe(id)
  }
})
