import { beforeAll, describe, expect, it } from 'vitest'
import type { Serving } from '../../../cloud-bridge/serving/serving.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import type { ServingPolicy } from '../../../core/policy/serving/policy.ts'
import { createServingPolicy, servingPolicyNames } from '../../../lab/baselines/serving-policies.ts'
import { someIds, workshop } from '../../core/model/engine/models.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { randomStates } from '../../support/random-states.ts'
import { scriptedPart } from '../../support/scripted-part.ts'
import { openStream, servedOf, testServing } from '../../support/serving.ts'
import { shared } from '../../support/shared.ts'

const bench = shared(workshop)
const model = shared(() => bench.open({ format: 'fp32', split: 1 }))
let alone: { session: number[][]; answers: number[][] }
beforeAll(async () => {
  alone = {
    session: await converse(testServing(servedOf(model))),
    answers: await Promise.all([1, 2, 3].map((seed) => answer(testServing(servedOf(model)), seed))),
  }
})

const maxTokens = 110
const nextTurn = () => new Promise((turn) => setImmediate(turn))

async function answer(serving: Serving, seed: number): Promise<number[]> {
  const ids = someIds(model.manifest, 8, seed)
  const stream = serving.openTokens(`client-${seed}`, { ids, answered: [], eos: [], sampling: greedy, maxTokens, tokensPerS: 5 })
  const tokens: number[] = []
  for (;;) {
    const { choices, end } = await stream.next()
    tokens.push(...choices.map(({ token }) => token))
    if (end) return tokens
  }
}

/** A session whose KV grows from the first buffers to twice as much. @returns the bits that come back */
async function converse(serving: Serving, owner?: string, unread?: number): Promise<number[][]> {
  const random = seededRandom(5)
  const { width } = randomStates(1, model.manifest.dims.hidden, 1)
  const stream = await openStream(serving, owner)
  const bits: number[][] = []
  for (let round = 0; round < 10; round++) {
    if (unread !== undefined && round > 0) stream.report(5, unread)
    const states = randomStates(8, width, Math.floor(random.next() * 2 ** 31))
    bits.push([...(await stream.append({ states, select: 'all' })).states.half])
  }
  await stream.close()
  return bits
}

describe.each(servingPolicyNames)('while answers fill the memory, under %s', (name) => {
  it("a device's session opens and grows, and no answer differs for having been preempted", async () => {
    const policy = createServingPolicy(name, { promptRows: 32, minPromptRows: 8 })
    // For two whole answers, or one and the session.
    const budgetBytes = 256 * servedOf(model).tokens!.bytesPerPosition
    const serving = testServing(servedOf(model), { policy, kv: { budgetBytes, ownerBytes: budgetBytes } })
    let ended = 0
    const answers = Promise.all([1, 2, 3].map((seed) => answer(serving, seed).finally(() => (ended += 1))))
    while (serving.memory.usedBytes < budgetBytes) await nextTurn()
    expect(await converse(serving)).toEqual(alone.session)
    expect(ended).toBe(0)
    expect(await answers).toEqual(alone.answers)
    expect(serving.memory.usedBytes).toBe(0)
    await serving.close()
  })
})

describe('sessions that report their readers, under tokenflow', () => {
  it('are preempted while their readers have much to read, and return the same bits', async () => {
    const flow = createServingPolicy('tokenflow', { promptRows: 32, minPromptRows: 8 })
    let preemptions = 0
    const policy: ServingPolicy = {
      ...flow,
      plan(state, nowMs) {
        const plan = flow.plan(state, nowMs)
        preemptions += plan.preempt.length
        return plan
      },
    }
    const perPosition = servedOf(model).rows!.bytesPerPosition
    // For two sessions of four.
    const serving = testServing(servedOf(model), { policy, kv: { budgetBytes: 256 * perPosition } })
    const owners = ['a', 'b', 'c', 'd']
    const sessions = await Promise.all(owners.map((owner) => converse(serving, owner, 1_000)))
    for (const session of sessions) expect(session).toEqual(alone.session)
    expect(preemptions).toBeGreaterThan(0)
    expect(serving.memory.usedBytes).toBe(0)
    await serving.close()
  })
})

describe('memory that never becomes free', () => {
  const ordinary = createServingPolicy('decode-first', { promptRows: 32, minPromptRows: 8 })
  /** Makes nothing way, and runs no answer. */
  const stubborn = (isRow: (id: number) => boolean): ServingPolicy => ({
    plan(state, nowMs) {
      const { run, ...plan } = ordinary.plan(state, nowMs)
      return { ...plan, preempt: [], run: run.filter(({ stream }) => isRow(stream)) }
    },
  })

  it('is waited for 3 s by a new session, which is then refused', async () => {
    const clock = fakeClock()
    const budgetBytes = 64 * servedOf(model).tokens!.bytesPerPosition
    const policy = stubborn((id) => id > 1)
    const serving = testServing(servedOf(model), { policy, clock, kv: { budgetBytes } })
    const held = serving.openTokens('client', { ids: [1, 2], answered: [], eos: [], sampling: greedy, maxTokens: 9 })
    while (serving.memory.usedBytes < budgetBytes) await nextTurn()
    let opened: unknown = 'waits'
    const opening = serving.open('jetson-01').then((result) => {
      opened = result
    })
    await clock.advance(2_999)
    expect(opened).toBe('waits')
    await clock.advance(1)
    await opening
    expect(opened).toBeUndefined()
    expect(serving.memory.usedBytes).toBe(budgetBytes)
    await held.close()
    await serving.close()
  })

  it('is waited for by rows of a session as long as configured; then they fail', async () => {
    const clock = fakeClock()
    const perPosition = 2 * 16 * 4
    const policy = stubborn(() => true)
    const serving = testServing(scriptedPart(), {
      policy,
      clock,
      maxMemoryWaitMs: 7_000,
      kv: { budgetBytes: 128 * perPosition, firstPositions: 8 },
    })
    const [first, second] = [await openStream(serving, 'a'), await openStream(serving, 'b')]
    const rows = (n: number) => ({ states: { rows: n, width: 2, half: new Uint16Array(n * 2) }, select: 'last' as const })
    await first.append(rows(60))
    await second.append(rows(60))
    let failed: unknown
    const growing = first.append(rows(10)).catch((error: unknown) => {
      failed = error
    })
    // No other session is preempted for the latest one: its rows fail at once.
    await expect(second.append(rows(10))).rejects.toMatchObject({ code: 'OUT_OF_MEMORY' })
    await clock.advance(6_999)
    expect(failed).toBeUndefined()
    await clock.advance(1)
    await growing
    expect(failed).toMatchObject({ code: 'OUT_OF_MEMORY' })
    expect(first.length).toBe(60)
    await second.close()
    await first.append(rows(10))
    expect(first.length).toBe(70)
    await first.close()
    expect(serving.memory.usedBytes).toBe(0)
  })
})
