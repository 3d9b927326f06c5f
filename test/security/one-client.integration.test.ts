import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openIdentityStore } from '../../cloud-bridge/identity/store.ts'
import { createServingPolicy } from '../../lab/baselines/serving-policies.ts'
import { buildTextBundle } from '../support/agent-world.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { postJson } from '../support/post-json.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'

const question = { messages: [{ role: 'user', content: 'Where does the river rise?' }], temperature: 0, ignore_eos: true }
const waitingAnswers = 16

const dir = shared(tempDir)
let bundle: string
beforeAll(async () => {
  bundle = await buildTextBundle(dir.path, { adapter: false })
})

describe.each(['decode-first', 'tokenflow', 'fcfs'] as const)('a flood of one API key, with the policy %s', (policy) => {
  let bridge: TestBridge
  let keys: { flood: string; honest: string }
  beforeAll(async () => {
    const stateDir = join(dir.path, policy)
    // Memory for a few answers.
    const memory = { kvBudgetBytes: 512 * 1_024, chunkTokens: 16, prefixKeepS: 0 }
    const settings = { bundle, stateDir, auth: true, ...memory, limits: { waitingAnswers } }
    bridge = await startTestBridge(settings, undefined, { servingPolicy: (options) => createServingPolicy(policy, options) })
    const store = openIdentityStore(stateDir)
    const key = (name: string) => store.createKey('operator:test', name, 'client').key
    keys = { flood: key('flood'), honest: key('honest') }
    store.close()
  })
  afterAll(() => bridge.close())

  const ask = (key: string, body: object, signal: AbortSignal | null = null) =>
    postJson(`${bridge.httpUrl}/v1/chat/completions`, { ...question, ...body }, { authorization: `Bearer ${key}` }, signal)

  it.each([
    ['of many requests', 60, {}],
    ['of requests for many answers each', 6, { n: 12 }],
    ['of many requests, each of another user', 60, { user: 'x' }],
  ])('%s leaves another key its share of the places, and of the engine', async (_, requests, body) => {
    const over = new AbortController()
    let refused = 0
    let served = 0
    const own = (at: number) => ('user' in body ? { ...body, user: `user ${at}` } : body)
    const flood = Array.from({ length: requests }, async (_, at) => {
      const response = await ask(keys.flood, { ...own(at), max_tokens: 48 }, over.signal)
      await response.arrayBuffer()
      if (response.status === 429) refused += 1
      else served += 1
    })
    await expect.poll(() => refused).toBeGreaterThan(0)
    const before = served
    const honest = await Promise.all(Array.from({ length: waitingAnswers / 2 }, () => ask(keys.honest, { max_tokens: 8 })))
    expect(honest.map(({ status }) => status)).toEqual(honest.map(() => 200))
    // Those that had begun before, at most, rather than all that waited before it.
    if (requests > waitingAnswers) expect(served - before).toBeLessThan(waitingAnswers)
    over.abort()
    await Promise.allSettled(flood)
  })
})
