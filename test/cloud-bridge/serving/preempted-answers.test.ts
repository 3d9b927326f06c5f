import { appendFileSync, readdirSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Serving, ServingOptions } from '../../../cloud-bridge/serving/serving.ts'
import type { SlowTier } from '../../../cloud-bridge/serving/slow-tier.ts'
import { fileTier } from '../../../cloud-bridge/serving/slow-tier-file.ts'
import { memoryTier } from '../../../cloud-bridge/serving/slow-tier-memory.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { type Random, seededRandom } from '../../../core/kit/base/random.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { decodeFirst } from '../../../core/policy/serving/decode-first.ts'
import type { ServingPolicy, StreamState } from '../../../core/policy/serving/policy.ts'
import { someIds, workshop } from '../../core/model/engine/models.ts'
import { servedOf, testServing } from '../../support/serving.ts'
import { shared } from '../../support/shared.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const bench = shared(workshop)
const model = shared(() => bench.open({ format: 'fp32', split: 1 }))
const folder = shared(tempDir)
let uninterrupted: number[][]
beforeAll(async () => {
  uninterrupted = await answers(testServing(servedOf(model), { policy: ordinary }))
})

const ordinary = decodeFirst({ promptRows: 16, minPromptRows: 8, maxStepsSkipped: 4, decodingMs: 500 })

/** Three answers, greedy and sampled, whose prompts and answers end on both sides of a page's end. */
function answers(serving: Serving): Promise<number[][]> {
  return Promise.all(
    [5, 14, 50].map(async (length, at) => {
      const sampling = at % 2 === 0 ? greedy : { temperature: 0.9, topK: 0, topP: 0.95, seed: at }
      const ids = someIds(model.manifest, length, at + 1)
      const stream = serving.openTokens(`client-${at}`, { ids, answered: [], eos: [], sampling, maxTokens: 6 + at })
      const tokens: number[] = []
      for (;;) {
        const { choices, end } = await stream.next()
        tokens.push(...choices.map(({ token }) => token))
        if (end) return tokens
      }
    }),
  )
}

interface Counts {
  preempted: number
  loaded: number
  recomputed: number
}

/** The ordinary policy; it preempts random streams, even those that it would run, and resumes them in a random way. */
function preempting(random: Random, counts: Counts, beforePlan: () => void = () => {}): ServingPolicy {
  const chance = random.next() * 0.3
  const resumptionOf = ({ resumptions }: StreamState) => resumptions[Math.floor(random.next() * resumptions.length)]!
  return {
    plan(state, nowMs) {
      beforePlan()
      const plan = ordinary.plan(state, nowMs)
      const preempt = state.waiting.filter(({ residency }) => residency === 'resident' && random.next() < chance)
      const resume = plan.resume.map(({ stream }) => {
        const resumed = state.waiting.find(({ id }) => id === stream)!
        const by = resumptionOf(resumed)
        if (resumed.contextLength > 0) counts[by === 'load' ? 'loaded' : 'recomputed'] += 1
        return { stream, by }
      })
      counts.preempted += preempt.length
      const preempted = new Set(preempt.map(({ id }) => id))
      const run = plan.run.filter(({ stream }) => !preempted.has(stream))
      // Nothing else would cause another plan.
      const lookAgainAtMs = preempt.length > 0 ? nowMs : undefined
      return { ...plan, preempt: [...preempted], resume, run, lookAgainAtMs }
    },
  }
}

/** A slow tier of which every so many-th transfer fails. */
function failing(tier: SlowTier, random: Random): SlowTier {
  return {
    ...tier,
    close: () => tier.close(),
    open() {
      const copy = tier.open()
      return {
        get bytes() {
          return copy.bytes
        },
        save: async (at, page) => random.next() < 0.8 && copy.save(at, page),
        load: async (at) => (random.next() < 0.8 ? copy.load(at) : undefined),
        release: () => copy.release(),
        leave: () => copy.leave(),
      }
    },
  }
}

const nothingLeft = { keepMs: 0, clientBytes: 0, models: [] }

const files = (name: string, budgetBytes = 2 ** 24) =>
  fileTier({ ...nothingLeft, folder: join(folder.path, name), budgetBytes, clock: systemClock, logger: silentLogger() })

/** Bytes of a page of an answer. */
const pageBytes = () => 16 * servedOf(model).tokens!.bytesPerPosition

const tiers: Record<string, (random: Random, seed: number) => Partial<ServingOptions['tiers']>> = {
  'host memory': () => ({ slow: memoryTier(2 ** 24) }),
  files: (_, seed) => ({ slow: files(`run-${seed}`) }),
  'no slow tier': () => ({ slow: undefined }),
  'no write-through': () => ({ slow: memoryTier(2 ** 24), writeThrough: false }),
  'no overlap': () => ({ slow: memoryTier(2 ** 24), overlap: false }),
  'files without write-through and overlap': (_, seed) => ({ slow: files(`run-${seed}`), writeThrough: false, overlap: false }),
  'a slow tier that is nearly full': () => ({ slow: memoryTier(4 * pageBytes()) }),
  'a slow tier that fails now and then': (random) => ({ slow: failing(memoryTier(2 ** 24), random) }),
}

const schedulesEach = 25

describe('answers that are preempted at random', () => {
  it.each(Object.entries(tiers))(`are those of uninterrupted runs, with %s (${schedulesEach} schedules)`, async (name, open) => {
    const counts: Counts = { preempted: 0, loaded: 0, recomputed: 0 }
    for (let seed = 1; seed <= schedulesEach; seed++) {
      const random = seededRandom(1_000 * Object.keys(tiers).indexOf(name) + seed)
      const own = open(random, seed)
      // Room for one to all of them.
      const budgetBytes = (128 + 64 * Math.floor(random.next() * 4)) * servedOf(model).tokens!.bytesPerPosition
      const serving = testServing(servedOf(model), { policy: preempting(random, counts), tiers: own, kv: { budgetBytes } })
      expect(await answers(serving)).toEqual(uninterrupted)
      expect(serving.memory.usedBytes).toBe(0)
      await serving.close()
      expect(own.slow?.usage.usedBytes ?? 0).toBe(0)
    }
    expect(counts.preempted).toBeGreaterThan(schedulesEach)
    if (name !== 'no slow tier') expect(Math.min(counts.loaded, counts.recomputed)).toBeGreaterThan(0)
  })

  it('are those of uninterrupted runs while the files of the slow tier are cut and altered', async () => {
    const random = seededRandom(77)
    const counts: Counts = { preempted: 0, loaded: 0, recomputed: 0 }
    const damage = () => {
      for (const name of readdirSync(join(folder.path, 'damaged'))) {
        const path = join(folder.path, 'damaged', name)
        if (random.next() < 0.1) truncateSync(path, 100)
        if (random.next() < 0.1) appendFileSync(path, 'more')
      }
    }
    for (let run = 0; run < 6; run++) {
      const policy = preempting(random, counts, damage)
      const serving = testServing(servedOf(model), { policy, tiers: { slow: files('damaged') } })
      expect(await answers(serving)).toEqual(uninterrupted)
      await serving.close()
    }
    expect(counts.loaded).toBeGreaterThan(0)
  })
})
