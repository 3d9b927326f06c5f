import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Agent, startAgent } from '../../../agent/agent.ts'
import { enrol } from '../../../agent/identity/enrolment.ts'
import { run } from '../../../brim.ts'
import { type IdentityStore, openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import { invitationText } from '../../../core/wire/protocol/identity.ts'
import { type BridgeNode, type SeveralBridges, severalBridges, sharedDatabase } from '../../../lab/cluster/several-bridges.ts'
import { buildTextBundle } from '../../support/agent-world.ts'
import { ask } from '../../support/asking-agent.ts'
import { mosquittoMissing } from '../../support/broker.ts'
import { captureIo } from '../../support/captured-io.ts'
import { postgresMissing } from '../../support/postgres.ts'
import { tempDir } from '../../support/temp-dir.ts'

const within = { timeout: 30_000 }
const asked = [
  { token_ids: true, private: true },
  { max_tokens: 24, ignore_eos: true },
] as const

describe.skipIf(postgresMissing() || mosquittoMissing())('links of devices to several bridges', () => {
  const folder = tempDir()
  const devices = ['jetson-01', 'jetson-02'] as const
  const agents: Agent[] = []
  let world: SeveralBridges
  let nodes: Record<'a' | 'b', BridgeNode>
  let identities: IdentityStore
  let key: string
  let keyFile: string
  beforeAll(async () => {
    const bundle = await buildTextBundle(folder.path)
    world = await severalBridges(process.env, { answers: ['--bundle', bundle], guarded: true })
    const a = await world.start('a')
    nodes = { a, b: await world.start('b') }
    identities = openIdentityStore(join(world.dir, 'a'))
    key = identities.createKey('operator:test', 'test', 'admin').key
    keyFile = join(folder.path, 'key')
    writeFileSync(keyFile, key, { mode: 0o600 })
    for (const id of devices) {
      const { token, secret } = identities.createToken('operator:test', {
        group: 'default',
        uses: 1,
        expiresS: 60,
        approve: true,
      })
      const stateDir = join(folder.path, id)
      // They know the standby only.
      const invitation = invitationText({ url: nodes.b.url, id: token.id, secret })
      await vi.waitFor(() => enrol({ stateDir, device: id, token: invitation, replace: true }), within)
      agents.push(await startAgent({ id, bundle, stateDir, apiPort: 0, threads: 1, logLevel: 'silent' }))
    }
  })
  afterAll(async () => {
    identities?.close()
    await Promise.all(agents.map((agent) => agent.close()))
    await world?.[Symbol.asyncDispose]()
    folder[Symbol.dispose]()
  })
  const links = async (at: 'a' | 'b' = 'b') => {
    const { primary, loads = [] } = (await sharedDatabase(nodes[at].url, key)) ?? {}
    return { primary, ...Object.fromEntries(loads.map((load) => [load.node, load.links])) }
  }
  const answers = () => Promise.all(agents.map(async (agent) => (await ask(agent, ...asked)).report))
  const brim = async (...words: string[]) => {
    const { io, out, err } = captureIo()
    const code = await run([...words, '--bridge-url', nodes.b.url, '--key-file', keyFile], io)
    return { code, out: out(), err: err() }
  }

  it('are divided among the processes, which make the same answers of the same devices', async () => {
    await expect.poll(() => links(), within).toEqual({ primary: 'a', a: 1, b: 1 })
    const [first, second] = await answers()
    expect(first!.tokenIds).toHaveLength(24)
    expect(second!.tokenIds).toEqual(first!.tokenIds)
    expect(await brim('fleet', 'status')).toMatchObject({ code: 0, out: expect.stringContaining('standby b (1 link') })
  })

  it('leave a primary that is drained, which gives its lease away, until that is undone', async () => {
    const [before] = await answers()
    const drained = await brim('bridge', 'drain', 'a')
    expect(drained).toMatchObject({ code: 0, out: expect.stringContaining('a: drained') })
    await expect.poll(() => links(), within).toEqual({ primary: 'b', a: 0, b: 2 })
    for (const { tokenIds } of await answers()) expect(tokenIds).toEqual(before!.tokenIds)
    expect((await brim('bridge', 'drain', 'b', '--no-wait')).err).toContain('no other process would serve')
    expect((await brim('bridge', 'drain', 'c')).err).toContain('no process "c"')
    expect((await brim('bridge', 'audit')).out).toMatch(/bridge\.drain +a +ok/)
    expect((await brim('bridge', 'drain', 'a', '--undo')).out).toContain('serves devices again')
    await expect.poll(() => links(), within).toEqual({ primary: 'b', a: 1, b: 1 })
  })

  it('go on at a process that lives, when the primary is killed', async () => {
    await nodes.b.process.kill()
    await expect.poll(() => links('a'), within).toMatchObject({ primary: 'a' })
    nodes.b = await world.start('b')
    await expect.poll(() => links('a'), within).toEqual({ primary: 'a', a: 1, b: 1 })
  })

  it('end at every process when their devices are revoked', async () => {
    const again = openIdentityStore(join(world.dir, 'a'))
    for (const device of devices) expect(again.revoke('operator:test', device)).toBe(true)
    again.close()
    await expect.poll(() => links(), within).toEqual({ primary: 'a', a: 0, b: 0 })
  })
})
