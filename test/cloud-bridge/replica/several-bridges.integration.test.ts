import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Agent, startAgent } from '../../../agent/agent.ts'
import { JobClient } from '../../../lab/cluster/job-client.ts'
import { type BridgeNode, type SeveralBridges, severalBridges, sharedDatabase } from '../../../lab/cluster/several-bridges.ts'
import { buildSlmBundle } from '../../support/agent-world.ts'
import { mosquittoMissing } from '../../support/broker.ts'
import { postgresMissing } from '../../support/postgres.ts'

const isSkipped = postgresMissing() || mosquittoMissing()
const within = { timeout: 30_000 }
const job = { kind: 'slm.generate', input: { prompt: 'What is a lamp?', maxTokens: 4 } }

type Name = 'a' | 'b' | 'c'

describe.skipIf(isSkipped)('bridges that share a database', () => {
  let world: SeveralBridges
  let nodes: Record<Name, BridgeNode>
  let device: Agent
  const client = (node: BridgeNode) => new JobClient(node.url, new AbortController().signal, { maxUnreachableMs: 30_000 })
  beforeAll(async () => {
    world = await severalBridges(process.env)
    const a = await world.start('a')
    nodes = { a, b: await world.start('b'), c: await world.start('c') }
    const slm = await buildSlmBundle(world.dir)
    const own = { stateDir: join(world.dir, 'device'), apiPort: 0, threads: 1, logLevel: 'silent' } as const
    device = await startAgent({ id: 'jetson-01', slms: [slm], bridges: [world.broker.url], ...own })
  })
  afterAll(async () => {
    await device?.close()
    await world?.[Symbol.asyncDispose]()
  })
  const primary = async (from: Name = 'a') => (await sharedDatabase(nodes[from].url))?.primary as Name
  const another = (than: Name): Name => (than === 'a' ? 'b' : 'a')
  const succeeds = (id: string, at: Name) =>
    expect.poll(async () => (await client(nodes[at]).show(id))?.state, within).toBe('SUCCEEDED')

  it('have one primary, and the same API at each', async () => {
    const all = { primary: 'a', nodes: ['a', 'b', 'c'], failure: null }
    for (const { url } of Object.values(nodes)) await expect.poll(() => sharedDatabase(url), within).toMatchObject(all)
    const id = await client(nodes.b).submit(job)
    await succeeds(id, 'c')
    expect(await client(nodes.a).history(id)).toContain('succeeded')
    const missing = await fetch(`${nodes.b.url}/v1/jobs/none`)
    expect(missing.status).toBe(404)
  })

  it('lose no job that was acknowledged, and repeat none that was done, when the primary is killed in the midst of them', async () => {
    const submitted: string[] = []
    let isStopped = false
    const submit = async (node: BridgeNode, name: string) => {
      for (let at = 0; !isStopped; at++) submitted.push(await client(node).submit(job, `${name}-${at}`))
    }
    const submitting = [submit(nodes.b, 'b'), submit(nodes.c, 'c')]
    await expect.poll(() => submitted.length, within).toBeGreaterThan(50)
    await nodes.a.process.kill()
    const before = submitted.length
    await expect.poll(() => submitted.length, within).toBeGreaterThan(before + 20)
    isStopped = true
    await Promise.all(submitting)
    expect(['b', 'c']).toContain(await primary('b'))
    expect(new Set(submitted).size).toBe(submitted.length)
    const states = async () => new Set(await Promise.all(submitted.map(async (id) => (await client(nodes.c).show(id))?.state)))
    await expect.poll(states, { timeout: 50_000, interval: 500 }).toEqual(new Set(['SUCCEEDED']))
    for (const id of submitted) expect((await client(nodes.c).history(id)).filter((type) => type === 'succeeded')).toHaveLength(1)
    nodes.a = await world.start('a')
    await expect.poll(async () => (await sharedDatabase(nodes.a.url))?.nodes, within).toEqual(['a', 'b', 'c'])
  })

  it('do not listen to a primary that was paused while another took over', async () => {
    const before = await primary()
    const other = another(before)
    process.kill(nodes[before].process.pid, 'SIGSTOP')
    try {
      await expect.poll(() => primary(other), within).toSatisfy((now) => now !== undefined && now !== before)
    } finally {
      process.kill(nodes[before].process.pid, 'SIGCONT')
    }
    // Whatever it still had to say: a job that it is asked for now is the other's.
    await succeeds(await client(nodes[before]).submit(job, 'after-the-pause'), other)
    await expect.poll(() => primary(before), within).toBe(await primary(other))
  })

  it('acknowledge nothing while the database is away, and go on when it is back', async () => {
    await world.postgres.stop()
    let isAcknowledged = false
    const submitting = client(nodes.c)
      .submit(job, 'during-the-outage')
      .then((id) => {
        isAcknowledged = true
        return id
      })
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    expect(isAcknowledged).toBe(false)
    await world.postgres.start()
    await succeeds(await submitting, 'a')
  })

  it('hand over at once when the primary is asked to stop', async () => {
    const before = await primary()
    const other = another(before)
    await nodes[before].process.stop()
    await expect.poll(() => primary(other), within).toSatisfy((now) => now !== undefined && now !== before)
    await succeeds(await client(nodes[other]).submit(job), other)
  })
})
