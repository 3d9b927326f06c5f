import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { runScenario } from '../../../../lab/simulate/run/run-scenario.ts'
import { Scenario } from '../../../../lab/simulate/scenario/scenario.ts'
import type { AnswerRecord } from '../../../../lab/simulate/world/answer-record.ts'

interface Asked {
  readonly mode: string
  readonly perS?: number
  readonly requests?: number
  readonly seed?: number
  readonly devices?: number
  readonly pice?: object
  readonly policies?: object
  readonly outputTokens?: object | number
}

/** PICE's testbed: a cloud of four A100, four AGX Orin. */
async function run({ mode, perS = 1, requests = 40, seed = 1, devices = 4, pice = {}, policies = {}, outputTokens }: Asked) {
  const scenario = Scenario.parse({
    name: 'test',
    seed,
    cloud: { model: 'llama3-70b', gpu: 'a100-80', gpus: 4, policy: 'fcfs', answersAtOnce: 8 },
    devices: [
      {
        name: 'orin',
        count: Math.max(1, devices),
        board: 'agx-orin-64',
        link: { up: 12.5e6, down: 12.5e6 },
        // None expands without.
        smallModels: devices === 0 ? [] : ['qwen2.5-1.5b', 'qwen2.5-7b'],
      },
    ],
    policies: { pice: { readsAlong: false, ...pice }, ...policies },
    workload: {
      requests,
      arrivals: { kind: 'poisson', perS },
      promptTokens: 60,
      outputTokens: outputTokens ?? { kind: 'lognormal', median: 400, sigma: 0.4, max: 900 },
      // Clients of the cloud ask, not devices.
      modes: [{ mode, groups: [] }],
    },
  })
  const records: AnswerRecord[] = []
  const result = await runScenario(scenario, { onRecord: (record) => records.push(record) })
  return { result, records }
}
const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0)

describe('sketches that devices expand', () => {
  it('deliver every token once, written by the LLM or by devices, whatever the load', async () => {
    const any = fc.record({
      mode: fc.constantFrom('pice', 'static'),
      perS: fc.constantFrom(0.2, 1, 4),
      seed: fc.nat({ max: 1_000 }),
      devices: fc.constantFrom(0, 1, 4),
      pice: fc.record({
        candidates: fc.constantFrom(1, 2),
        expansionS: fc.constantFrom(1, 60),
        sharesPrefix: fc.boolean(),
        sketchS: fc.constantFrom(2, 60),
      }),
    })
    await fc.assert(
      fc.asyncProperty(any, async (asked) => {
        const { records, result } = await run({ ...asked, requests: 15 })
        expect(records).toHaveLength(15)
        expect(result.isComplete).toBe(true)
        for (const { tokens, outputTokens, refusal } of records)
          expect({ tokens, refusal }).toEqual({ tokens: outputTokens, refusal: undefined })
      }),
      { numRuns: 12 },
    )
  })

  it('are the same in every run of one seed', async () => {
    const [a, b] = [await run({ mode: 'pice' }), await run({ mode: 'pice' })]
    expect(a.records).toEqual(b.records)
    expect((await run({ mode: 'pice', seed: 2 })).records).not.toEqual(a.records)
  })

  it('answer sooner than the LLM alone, of which they need fewer tokens, once it is overloaded', async () => {
    const [alone, pice] = [await run({ mode: 'cloud', requests: 80 }), await run({ mode: 'pice', requests: 80 })]
    expect(pice.result.all.latencyMs.mean).toBeLessThan(0.7 * alone.result.all.latencyMs.mean)
    expect(pice.result.all.answersPerS).toBeGreaterThan(1.2 * alone.result.all.answersPerS)
    expect(pice.result.all.work.serverOutputTokens).toBeLessThan(0.8 * alone.result.all.work.serverOutputTokens)
    expect(pice.result.all.work.deviceOutputTokens).toBeGreaterThan(0)
  })

  it('are for readers of streamed answers only where the LLM is overloaded, and let them begin sooner there', async () => {
    const along = { mode: 'pice', requests: 80, perS: 0.6, pice: { readsAlong: true } }
    const sketched = ({ records }: Awaited<ReturnType<typeof run>>) =>
      records.filter(({ sketchTokens }) => sketchTokens > 0).length
    expect(sketched(await run({ ...along, perS: 0.05 }))).toBe(0)
    const [busy, alone] = [await run(along), await run({ ...along, mode: 'cloud' })]
    expect(sketched(busy)).toBeGreaterThan(10)
    expect(busy.result.all.ttftMs.mean).toBeLessThan(0.8 * alone.result.all.ttftMs.mean)
  })

  it('count: sketches and foresight by the LLM, expansions by devices', async () => {
    const { records } = await run({
      mode: 'static',
      pice: { begins: false, sketchMissTokens: 0, sketchShares: [0.5], foresightError: 0 },
      outputTokens: 400,
    })
    const sketched = records.filter(({ sketchTokens }) => sketchTokens > 0)
    expect(sketched.length).toBeGreaterThan(30)
    for (const { sketchTokens, serverOutputTokens, deviceOutputTokens } of sketched) {
      expect(sketchTokens).toBe(200)
      if (deviceOutputTokens === 400) expect(serverOutputTokens).toBe(203)
    }
  })

  it('follow a sentence of the LLM, which comes as soon as a full answer', async () => {
    const asked = { requests: 20, perS: 0.3, outputTokens: 400 }
    const pice = { sketchMissTokens: 0, sketchShares: [0.5], foresightError: 0 }
    const begun = await run({ ...asked, mode: 'static', pice })
    const sketched = begun.records.filter(({ sketchTokens }) => sketchTokens > 0)
    expect(sketched.length).toBeGreaterThan(5)
    for (const { serverOutputTokens, deviceOutputTokens, tokens } of sketched) {
      expect(tokens).toBe(400)
      const opening = 400 - deviceOutputTokens
      expect([opening % 20, serverOutputTokens]).toEqual([0, 203 + opening])
      expect(opening).toBeGreaterThan(0)
    }
    const ttft = ({ result }: typeof begun) => result.all.ttftMs.mean
    expect(ttft(begun)).toBeLessThan(1.2 * ttft(await run({ ...asked, mode: 'cloud' })))
    expect(ttft(begun)).toBeLessThan(0.5 * ttft(await run({ ...asked, mode: 'static', pice: { ...pice, begins: false } })))
  })

  it('are not made of short answers, nor of unsuitable questions', async () => {
    const none = async (asked: Partial<Asked>) =>
      sum((await run({ mode: 'pice', perS: 4, ...asked })).records.map((r) => r.sketchTokens))
    expect(await none({ outputTokens: 40, pice: { foresightError: 0 } })).toBe(0)
    expect(await none({ pice: { suitableShare: 0 } })).toBe(0)
    expect(await none({ devices: 0 })).toBe(0)
  })

  it('have as many candidates as asked for, which cost devices', async () => {
    const [one, two] = [
      await run({ mode: 'static', pice: { begins: false } }),
      await run({ mode: 'static', pice: { begins: false, candidates: 2 } }),
    ]
    const each = ({ records }: typeof one) =>
      records.flatMap(({ deviceOutputTokens, outputTokens, sketchTokens }) =>
        sketchTokens > 0 ? [deviceOutputTokens / outputTokens] : [],
      )
    expect(Math.max(...each(one))).toBe(1)
    expect(Math.max(...each(two))).toBe(2)
  })

  it('share the prefix of their prompts, unless told not to', async () => {
    const of = async (sharesPrefix: boolean) =>
      (await run({ mode: 'static', pice: { sharesPrefix } })).result.all.work.devicePromptTokens
    expect(await of(true)).toBeLessThan(0.4 * (await of(false)))
  })
})

describe('small models on devices', () => {
  it('answer alone, the least loaded device first', async () => {
    const { records, result } = await run({ mode: 'local', requests: 8, perS: 100 })
    expect(result.all.work.serverOutputTokens).toBe(0)
    expect(result.all.work.deviceOutputTokens).toBe(sum(records.map(({ outputTokens }) => outputTokens)))
    // Two answers for each of four devices, one after the other.
    const firstTokens = records.map(({ ttftMs }) => ttftMs).sort((a, b) => a - b)
    expect(firstTokens[3]!).toBeLessThan(2_000)
    expect(firstTokens[4]!).toBeGreaterThan(5_000)
  })

  it('write several answers in packed steps in less time than one after the other', async () => {
    const of = async (answersAtOnce: number) =>
      (await run({ mode: 'local', requests: 8, perS: 100, policies: { local: { answersAtOnce } } })).result.durationS
    expect(await of(2)).toBeLessThan(0.7 * (await of(1)))
  })

  it('get the share of the questions that a router gives them', async () => {
    const { records } = await run({
      mode: 'routing',
      requests: 200,
      perS: 0.5,
      policies: { routing: { edgeShare: 0.25 } },
      outputTokens: 30,
    })
    const byDevice = records.filter(({ deviceOutputTokens }) => deviceOutputTokens > 0).length
    expect(byDevice / 200).toBeGreaterThan(0.15)
    expect(byDevice / 200).toBeLessThan(0.35)
    for (const { deviceOutputTokens, serverOutputTokens } of records) expect(deviceOutputTokens + serverOutputTokens).toBe(30)
  })
})
