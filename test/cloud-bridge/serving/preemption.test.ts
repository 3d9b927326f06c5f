import { beforeAll, describe, expect, it } from 'vitest'
import type { Serving, ServingOptions } from '../../../cloud-bridge/serving/serving.ts'
import { memoryTier } from '../../../cloud-bridge/serving/slow-tier-memory.ts'
import { type Random, seededRandom } from '../../../core/kit/base/random.ts'
import type { Part } from '../../../core/model/engine/contract.ts'
import { decodeFirst } from '../../../core/policy/serving/decode-first.ts'
import type { ServingPolicy, ServingState } from '../../../core/policy/serving/policy.ts'
import type { States } from '../../../core/wire/protocol/states.ts'
import { workshop } from '../../core/model/engine/models.ts'
import { randomStates } from '../../support/random-states.ts'
import { scriptedPart } from '../../support/scripted-part.ts'
import { openStream, testServing } from '../../support/serving.ts'
import { shared } from '../../support/shared.ts'

const bench = shared(workshop)
let middle: Part
let width: number
beforeAll(async () => {
  const model = await bench.open({ format: 'fp32', split: 1 })
  middle = model.part('middle')
  width = model.manifest.dims.hidden
})

const ordinary = decodeFirst({ promptRows: 32, minPromptRows: 16, maxStepsSkipped: 4, decodingMs: 500 })

/** The ordinary policy, which in about half of its plans first preempts random streams, even those planned to run. */
function preempting(random: Random, onPreempt: (state: ServingState) => void): ServingPolicy {
  return {
    plan(state, nowMs) {
      const plan = ordinary.plan(state, nowMs)
      const preempt = [...state.waiting, ...state.idle]
        .filter(({ residency }) => residency === 'resident' && random.next() < 0.25)
        .map(({ id }) => id)
      if (preempt.length === 0) return plan
      onPreempt(state)
      const run = plan.run.filter(({ stream }) => !preempt.includes(stream))
      return { ...plan, preempt, run, lookAgainAtMs: nowMs }
    },
  }
}

const nextStates = (random: Random, rows: number) => randomStates(rows, width, Math.floor(random.next() * 2 ** 31))

/** The requests of one answer: a prompt in chunks, then drafts that are accepted in part, some of them trees. */
async function converse(serving: Serving, seed: number): Promise<States[]> {
  const random = seededRandom(seed)
  const count = (max: number) => 1 + Math.floor(random.next() * max)
  const stream = await openStream(serving, `device-${seed}`)
  const returned: States[] = []
  for (let chunk = 0; chunk < 4; chunk++) {
    const { states } = await stream.append({ states: nextStates(random, count(15)), select: 'last' })
    returned.push(states)
  }
  for (let round = 0; round < 30; round++) {
    const base = stream.length
    if (round % 3 === 2) {
      // Row 0 follows the text, rows 1 and 2 follow row 0: one of them is kept.
      const parents = [base - 1, base, base]
      returned.push((await stream.append({ states: nextStates(random, 3), parents, select: 'all' })).states)
      stream.gather(base, [base, base + count(2)])
    } else {
      returned.push((await stream.append({ states: nextStates(random, count(6)), select: 'all' })).states)
      stream.truncate(base + 1)
    }
  }
  await stream.close()
  return returned
}

const seeds = [1, 2, 3, 4, 5, 6]
const bitsOf = (answers: readonly States[][]) => answers.map((answer) => answer.map(({ half }) => [...half]))

describe('a stream that is preempted', () => {
  it.each([1, 2])('at random moments returns the same bits as without preemption (seed %i)', async (seed) => {
    const undisturbed = testServing(middle, { policy: ordinary, maxDecodeRows: 16 })
    const expected = await Promise.all(seeds.map((each) => converse(undisturbed, each)))
    let preemptions = 0
    let waiting = 0
    const policy = preempting(seededRandom(seed), (state) => {
      preemptions += 1
      if (state.waiting.length > 0) waiting += 1
    })
    const disturbed = testServing(middle, { policy, maxDecodeRows: 16 })
    const answers = await Promise.all(seeds.map((each) => converse(disturbed, each)))
    expect(bitsOf(answers)).toEqual(bitsOf(expected))
    expect(Math.min(preemptions, waiting)).toBeGreaterThan(20)
    expect(disturbed.memory.usedBytes).toBe(0)
  })

  it('frees its memory for another stream, and resumes once that one has closed', async () => {
    const { serving, preempt } = preemptible()
    const [first, second] = [await openStream(serving), await openStream(serving)]
    await first.append(blank(66))
    await expect(second.append(blank(100))).rejects.toMatchObject({ code: 'OUT_OF_MEMORY' })
    preempt(1)
    await second.append(blank(8))
    await expect.poll(() => serving.memory.usedBytes).toBe(64 * perPosition)
    await second.append(blank(92))
    expect(first.length).toBe(66)
    first.truncate(65)
    let isComputed = false
    const waiting = first.append(blank(1)).then(() => {
      isComputed = true
    })
    await second.append(blank(1))
    expect(isComputed).toBe(false)
    await second.close()
    await waiting
    expect(first.length).toBe(66)
    expect(serving.memory.usedBytes).toBe(128 * perPosition)
  })

  it("does not hold up those behind it while its owner's share is exhausted", async () => {
    const { serving, preempt } = preemptible({}, 128)
    const [first, second] = [await openStream(serving, 'a'), await openStream(serving, 'a')]
    const other = await openStream(serving, 'b')
    for (const stream of [first, second, other]) await stream.append(blank(8))
    for (const [id, left] of [
      [2, 128],
      [3, 64],
    ] as const) {
      preempt(id)
      await first.append(blank(1))
      await expect.poll(() => serving.memory.usedBytes).toBe(left * perPosition)
    }
    await first.append(blank(60))
    const waiting = second.append(blank(1))
    await other.append(blank(1))
    expect(second.length).toBe(8)
    await first.close()
    await waiting
    expect(second.length).toBe(9)
  })

  it('is not cached as a prefix if its KV no longer fits into the memory', async () => {
    const { serving, preempt } = preemptible()
    const [first, second] = [await openStream(serving), await openStream(serving)]
    await first.append(blank(66))
    preempt(1)
    await second.append(blank(8))
    await expect.poll(() => serving.memory.usedBytes).toBe(64 * perPosition)
    await second.append(blank(92))
    expect(await first.keep(66)).toBeUndefined()
    expect(serving.memory).toMatchObject({ usedBytes: 128 * perPosition, cachedBytes: 0 })
  })

  it('rejects rows that the whole memory could not hold', async () => {
    const policy: ServingPolicy = {
      plan(state, nowMs) {
        const idle = state.idle.filter(({ residency }) => residency === 'resident')
        return { ...ordinary.plan(state, nowMs), preempt: idle.map(({ id }) => id) }
      },
    }
    const serving = testServing(scriptedPart(), { policy, kv: { budgetBytes: 128 * perPosition } })
    const stream = await openStream(serving)
    await stream.append(blank(8))
    await expect.poll(() => serving.memory.usedBytes).toBe(0)
    await expect(stream.append(blank(121))).rejects.toMatchObject({ code: 'OUT_OF_MEMORY' })
    await stream.append(blank(120))
    expect(stream.length).toBe(128)
  })

  it.each([
    ['is full', memoryTier(0)],
    ['is absent', undefined],
  ])('stays in memory, and runs, if the slow tier %s', async (_, slow) => {
    const policy: ServingPolicy = {
      plan: (state, nowMs) => ({
        ...ordinary.plan(state, nowMs),
        preempt: state.waiting.filter(({ contextLength }) => contextLength > 0).map(({ id }) => id),
      }),
    }
    const stream = await openStream(testServing(scriptedPart(), { policy, tiers: { slow } }))
    for (const length of [3, 6]) {
      const { states } = await stream.append({ states: { rows: 3, width: 2, half: new Uint16Array(6) }, select: 'all' })
      expect([states.rows, stream.length]).toEqual([3, length])
    }
  })

  it('fails as a session that the bridge does not know, so that its device sends the rows again, if the slow tier lost them', async () => {
    const tier = memoryTier(2 ** 20)
    let loads = 0
    const load = async () => {
      loads += 1
      return undefined
    }
    const forgetful = { ...tier, open: () => Object.assign(tier.open(), { load }) }
    const { serving, preempt } = preemptible({ slow: forgetful })
    const [first, second] = [await openStream(serving), await openStream(serving)]
    await first.append(blank(66))
    preempt(1)
    await second.append(blank(8))
    await expect.poll(() => serving.memory.usedBytes).toBe(64 * perPosition)
    await expect(first.append(blank(1))).rejects.toMatchObject({ code: 'SESSION_UNKNOWN' })
    for (let turn = 0; turn < 20; turn++) await new Promise((done) => setImmediate(done))
    expect(loads).toBe(1)
    expect(first.length).toBe(66)
    await first.close()
    expect(serving.memory.usedBytes).toBe(64 * perPosition)
  })

  it('stays in memory, runs and closes, if its rows cannot be read for the slow tier', async () => {
    const { serving, preempt } = preemptible({
      slow: {
        ...memoryTier(2 ** 20),
        open() {
          throw new Error('scripted failure')
        },
      },
    })
    const stream = await openStream(serving)
    await stream.append(blank(33))
    preempt(1)
    await stream.append(blank(1))
    await stream.append(blank(1))
    expect(stream.length).toBe(35)
    await stream.close()
    expect(serving.memory.usedBytes).toBe(0)
  })

  it('leaves its KV in the prefix cache when it is closed, if there is room', async () => {
    const policy: ServingPolicy = {
      plan: (state, nowMs) => ({
        ...ordinary.plan(state, nowMs),
        preempt: [...state.waiting, ...state.idle].map(({ id }) => id),
      }),
    }
    const expected = await continued(testServing(middle, { maxDecodeRows: 16, kv: { prefixMs: 60_000 } }))
    const answered = await continued(
      testServing(middle, { policy: afterRows(policy), maxDecodeRows: 16, kv: { prefixMs: 60_000 } }),
    )
    expect(bitsOf([answered])).toEqual(bitsOf([expected]))
  })
})

/** KV bytes of one position of the scripted part. */
const perPosition = 2 * 16 * 4
const blank = (n: number) => ({ states: { rows: n, width: 2, half: new Uint16Array(n * 2) }, select: 'last' as const })

/** Serving with room for 200 positions; `preempt` makes the next plan preempt that stream. */
function preemptible(tiers: Partial<ServingOptions['tiers']> = {}, ownerPositions = 200) {
  let preempted: number[] = []
  const policy: ServingPolicy = {
    plan(state, nowMs) {
      const plan = { ...ordinary.plan(state, nowMs), preempt: preempted }
      preempted = []
      return plan
    },
  }
  const kv = {
    budgetBytes: 200 * perPosition,
    ownerBytes: ownerPositions * perPosition,
    firstPositions: 8,
    prefixMs: 60_000,
  }
  const preempt = (stream: number) => {
    preempted = [stream]
  }
  return { serving: testServing(scriptedPart(), { policy, kv, tiers }), preempt }
}

/** Preempts only once no rows wait. */
function afterRows(policy: ServingPolicy): ServingPolicy {
  return {
    plan: (state, nowMs) => (state.waiting.length > 0 ? ordinary : policy).plan(state, nowMs),
  }
}

/** Rows of a stream that begins with the cached prefix of another. */
async function continued(serving: Serving): Promise<States[]> {
  const random = seededRandom(9)
  const first = await openStream(serving)
  await first.append({ states: nextStates(random, 12), select: 'none' })
  // The step has ended, so that the plan after it preempts the stream.
  for (let turn = 0; turn < 4; turn++) await new Promise((done) => setImmediate(done))
  const handle = await first.keep(10)
  const next = await serving.open('jetson-01', { handle: handle!, length: 10 })
  expect(next).toMatchObject({ moved: true, stream: { length: 10 } })
  const { states } = await next!.stream.append({ states: nextStates(random, 4), select: 'all' })
  await serving.close()
  return [states]
}
