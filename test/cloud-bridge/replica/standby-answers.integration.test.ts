import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import { streamAnswerFrom } from '../../../core/wire/openai/client.ts'
import { laboratoryProgram } from '../../../lab/cluster/processes.ts'
import { type BridgeNode, severalBridges, sharedDatabase } from '../../../lab/cluster/several-bridges.ts'
import { buildTextBundle } from '../../support/agent-world.ts'
import { healthOf } from '../../support/bridge.ts'
import { mosquittoMissing } from '../../support/broker.ts'
import { postJson } from '../../support/post-json.ts'
import { postgresMissing } from '../../support/postgres.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const within = { timeout: 30_000 }

interface Answer {
  readonly choices: readonly [{ readonly message: { readonly content: string } }]
}

/** The text of a streamed answer, as it arrives. */
function followed(response: Response) {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let events = ''
  const reading = (async () => {
    for (let next = await reader.read(); !next.done; next = await reader.read()) events += next.value
  })()
  return {
    get text() {
      return [...events.matchAll(/"content":"((?:[^"\\]|\\.)*)"/g)].map(([, part]) => part).join('')
    },
    async leave() {
      await reader.cancel()
      await reading
    },
  }
}

describe.skipIf(postgresMissing() || mosquittoMissing())('a standby that is asked', () => {
  const folder = shared(tempDir)
  const world = shared(async () => {
    // An answer lasts longer than a lease.
    const answers = ['--bundle', await buildTextBundle(folder.path), '--step-ms', '100']
    const bridges = await severalBridges(process.env, { answers, guarded: true, program: laboratoryProgram })
    const nodes = { a: await bridges.start('a'), b: await bridges.start('b'), c: await bridges.start('c') }
    const identities = openIdentityStore(join(bridges.dir, 'a'))
    const { key, id: keyId } = identities.createKey('operator:test', 'test', 'admin')
    identities.close()
    return { nodes, key, keyId, dir: bridges.dir, [Symbol.asyncDispose]: bridges[Symbol.asyncDispose] }
  })
  const ask = ({ url }: BridgeNode, fields: object, key = world.key) => {
    const messages = [{ role: 'user', content: 'Can you' }]
    const body = { messages, temperature: 0, max_tokens: 4, ...fields }
    return postJson(`${url}/v1/chat/completions`, body, { authorization: `Bearer ${key}` })
  }
  const tokensOf = async ({ url }: BridgeNode) => (await healthOf({ httpUrl: url })).serving.tokens
  /** Asks a standby. @returns whether the primary has computed nothing for it */
  async function isOwn(primary: BridgeNode, asked: () => Promise<Response>): Promise<boolean> {
    const before = await tokensOf(primary)
    expect((await asked()).status).toBe(200)
    return (await tokensOf(primary)) === before
  }
  const full = { brim: { mode: 'full' } }

  it('answers in full itself, and passes on what may need devices, and callers whom it does not know', async () => {
    const { a, b } = world.nodes
    await expect.poll(() => isOwn(a, () => ask(b, full)), within).toBe(true)
    for (const mode of ['sketch', 'auto', null]) expect(await isOwn(a, () => ask(b, { brim: { mode } }))).toBe(false)
    // Its client closes the connection after it; the standby keeps that to the primary.
    const body = { messages: [{ role: 'user' as const, content: 'Can you' }], max_tokens: 4, brim: { mode: 'sketch' as const } }
    const { text } = await streamAnswerFrom({ server: 'bridge', ...b, key: world.key }, body, new AbortController().signal)
    expect(text).not.toBe('')
    await expect(tokensOf(b)).resolves.toBeGreaterThan(0)
    expect((await ask(b, full, 'brim-key-1.unknown')).status).toBe(401)
    expect((await ask(b, { ...full, max_tokens: -1 })).status).toBe(400)
    const [own, others] = await Promise.all([b, a].map(async (node) => (await (await ask(node, full)).json()) as Answer))
    expect(own!.choices[0].message.content).toBe(others!.choices[0].message.content)
  })

  it('goes on when the primary is killed, also while it becomes the primary, and needs none to begin', async () => {
    const { a, b, c } = world.nodes
    const long = { ...full, max_tokens: 400, ignore_eos: true, stream: true }
    const streams = await Promise.all([b, c].map(async (node) => followed(await ask(node, long))))
    await a.process.kill()
    const begun = await Promise.all([b, c].map((node) => ask(node, full)))
    expect(begun.map(({ status }) => status)).toEqual([200, 200])
    await expect.poll(async () => (await sharedDatabase(b.url, world.key))?.primary, within).toMatch(/b|c/)
    const before = streams.map(({ text }) => text.length)
    await expect.poll(() => streams.every(({ text }, at) => text.length > before[at]!), within).toBe(true)
    await Promise.all(streams.map((stream) => stream.leave()))
    const same = Math.min(...streams.map(({ text }) => text.length))
    expect(streams[0]!.text.slice(0, same)).toBe(streams[1]!.text.slice(0, same))
  })

  it('answers no caller whose key has been revoked', async () => {
    const { b, c } = world.nodes
    const { primary } = (await sharedDatabase(b.url, world.key))!
    const [leading, standby] = primary === 'b' ? [b, c] : [c, b]
    // Those that were left end first.
    await expect.poll(() => isOwn(leading, () => ask(standby, full)), within).toBe(true)
    const identities = openIdentityStore(join(world.dir, primary))
    identities.revokeKey('operator:test', world.keyId)
    identities.close()
    await expect.poll(async () => (await ask(standby, full)).status, within).toBe(401)
  })
})
