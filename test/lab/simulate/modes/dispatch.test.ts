import { describe, expect, it } from 'vitest'
import type { z } from 'zod'
import { runScenario } from '../../../../lab/simulate/run/run-scenario.ts'
import type { DiscoSettings } from '../../../../lab/simulate/scenario/disco-settings.ts'
import type { Distribution } from '../../../../lab/simulate/scenario/distribution.ts'
import { Scenario } from '../../../../lab/simulate/scenario/scenario.ts'
import type { AnswerRecord } from '../../../../lab/simulate/world/answer-record.ts'

const cheap = { prompt: 1e-7, output: 1e-7 }
const dear = { prompt: 1e-5, output: 1e-5 }
const phones = {
  name: 'phones',
  board: 'pixel-7-pro',
  link: { up: 1e6, down: 1e6 },
  smallModels: ['bloom-1.1b'],
  throttles: false,
}

interface Given {
  readonly mode?: string
  readonly ttftMs?: z.input<typeof Distribution>
  readonly disco?: z.input<typeof DiscoSettings>
  readonly perS?: number
  readonly devices?: number
  readonly smallModels?: string[]
  readonly price?: typeof cheap
}

async function run({ mode = 'auto', ttftMs = 300, disco = {}, perS = 1 / 30, devices = 20, smallModels, price = cheap }: Given) {
  const records: AnswerRecord[] = []
  const scenario = Scenario.parse({
    name: 'dispatch',
    server: { ttftMs, tokenMs: 20, dollarsPerToken: price },
    devices: [{ ...phones, count: devices, ...(smallModels && { smallModels }) }],
    policies: { disco: { learn: 'group', ...disco } },
    workload: {
      requests: 80,
      arrivals: { kind: 'poisson', perS },
      promptTokens: { kind: 'lognormal', median: 14, sigma: 0.5 },
      outputTokens: 40,
      maxOutputTokens: 40,
      modes: [{ mode }],
    },
  })
  const result = await runScenario(scenario, { onRecord: (record) => records.push(record) })
  const sum = (value: (record: AnswerRecord) => number) => records.reduce((total, record) => total + value(record), 0)
  return { records, result, sum }
}

describe('private answers, for which the small model may begin', () => {
  const privately = async (mode: string, autoPatienceS: number | null, up = 2e5) => {
    const records: AnswerRecord[] = []
    const scenario = Scenario.parse({
      name: 'private',
      cloud: { model: 'qwen2.5-7b', gpu: 'a100-80' },
      devices: [{ name: 'boards', count: 4, board: 'agx-orin-64', smallModels: ['qwen2.5-1.5b'], link: { up, down: 1e6 } }],
      policies: { disco: { autoPatienceS } },
      workload: {
        requests: 24,
        arrivals: { kind: 'poisson', perS: 0.01 },
        promptTokens: { kind: 'uniform', min: 20, max: 400 },
        outputTokens: 60,
        modes: [{ mode }],
      },
    })
    await runScenario(scenario, { onRecord: (record) => records.push(record) })
    return records.sort((a, b) => a.id - b.id)
  }

  it('have every token once, whichever side writes', async () => {
    for (const patienceS of [0.01, 0.5, 2, null])
      for (const { tokens, refusal } of await privately('private', patienceS)) expect({ tokens, refusal }).toEqual({ tokens: 60 })
  })

  it('are HAT’s where it is in time, and begin on the device where its states take too long', async () => {
    const [hat, patient, impatient] = [
      await privately('hat', null),
      await privately('private', null),
      await privately('private', 1),
    ]
    const ttfts = (records: readonly AnswerRecord[]) => records.map(({ ttftMs }) => ttftMs)
    expect(ttfts(patient)).toEqual(ttfts(hat))
    expect(Math.max(...ttfts(hat))).toBeGreaterThan(4_000)
    // A board reads a prompt in much less than a second.
    expect(Math.max(...ttfts(impatient))).toBeLessThan(1_600)
    for (const [at, ttftMs] of ttfts(hat).entries()) if (ttftMs < 1_000) expect(impatient[at]!.deviceOutputTokens).toBe(0)
    expect(impatient.some(({ serverOutputTokens, deviceOutputTokens }) => serverOutputTokens > 0 && deviceOutputTokens > 0)).toBe(
      true,
    )
  })
})

describe('auto over all the methods', () => {
  const answered = async (mode: string, disco: z.input<typeof DiscoSettings>, up = 1e7) => {
    const records: AnswerRecord[] = []
    const scenario = Scenario.parse({
      name: 'all the methods',
      cloud: { model: 'qwen2.5-32b', gpu: 'a100-80', dollarsPerToken: cheap },
      devices: [
        { name: 'boards', count: 6, board: 'agx-orin-32', link: { up, down: 1e7, rttMs: 20 } },
        { name: 'helpers', count: 6, board: 'agx-orin-64', smallModels: ['qwen2.5-7b'], link: { up, down: 1e7, rttMs: 20 } },
      ],
      policies: { disco: { learn: 'group', ...disco }, pice: { helpers: ['helpers'], suitableShare: 1 } },
      workload: {
        requests: 48,
        arrivals: { kind: 'poisson', perS: 6 },
        promptTokens: { kind: 'uniform', min: 20, max: 400 },
        outputTokens: 400,
        readers: [{ tokensPerS: 60, share: 1 }],
        modes: [{ mode, groups: mode === 'auto' ? ['boards', 'helpers'] : ['helpers'] }],
      },
    })
    await runScenario(scenario, { onRecord: (record) => records.push(record) })
    expect(new Set(records.map(({ tokens, refusal }) => `${tokens} ${refusal}`))).toEqual(new Set(['400 undefined']))
    return records
  }
  const count = (records: readonly AnswerRecord[], is: (record: AnswerRecord) => boolean) => records.filter(is).length

  it('every answer has its tokens once; some are by HAT, some by a sketch, where those are allowed', async () => {
    const records = await answered('auto', { sketches: true, splitting: ['boards', 'helpers'] })
    expect(count(records, ({ rounds }) => rounds > 0)).toBeGreaterThan(0)
    expect(count(records, ({ sketchTokens }) => sketchTokens > 0)).toBeGreaterThan(0)
    const alone = await answered('auto', {})
    expect(count(alone, ({ rounds, sketchTokens }) => rounds > 0 || sketchTokens > 0)).toBe(0)
  })

  it('private text is answered by HAT and the device, whatever the settings allow', async () => {
    for (const record of await answered('auto-private', { sketches: true, splitting: ['helpers'] }))
      expect([record.sketchTokens, record.rounds > 0 || record.deviceOutputTokens > 0]).toEqual([0, true])
  })
})

/** In seconds per token of a Pixel 7 Pro with Bloom-1.1B. */
const prefillS = 1 / 31.32

describe('answers of device and server in a scenario', () => {
  it('wait for a device that is to spare a limited server no longer than readers are patient', async () => {
    const disco = { constrained: 'server', share: 0.1, dispatch: 'plan' } as const
    const ttfts = async (autoPatienceS: number | null) =>
      (await run({ disco: { ...disco, autoPatienceS } })).records.map(({ ttftMs }) => ttftMs / 1_000)
    expect(Math.max(...(await ttfts(null)))).toBeGreaterThan(0.8)
    const patient = await ttfts(0.4)
    // The server takes 0.3 s: at once where the device is known to be slow, else after 0.4 s.
    expect(Math.max(...patient)).toBeLessThanOrEqual(0.7 + 1e-9)
    expect(patient.filter((ttftS) => ttftS < 0.3).length).toBeGreaterThan(10)
  })

  it('all end with their tokens, the same with the same seed', async () => {
    const [first, again] = [await run({ disco: { share: 0.3 } }), await run({ disco: { share: 0.3 } })]
    expect(first.records).toHaveLength(80)
    for (const { tokens, refusal } of first.records) expect([tokens, refusal]).toEqual([40, undefined])
    expect(again.records).toEqual(first.records)
  })

  it('race: the first token is that of the faster side, and comes as it is made', async () => {
    const { records } = await run({ mode: 'race', ttftMs: 600 })
    for (const { ttftMs, promptTokens, serverPromptTokens, devicePromptTokens, tbtMs } of records) {
      expect(ttftMs).toBeCloseTo(Math.min(600, 1_000 * prefillS * promptTokens))
      expect([serverPromptTokens, devicePromptTokens]).toEqual([promptTokens, promptTokens])
      expect(tbtMs).toBeLessThan(80)
    }
    expect(new Set(records.map(({ ttftMs }) => ttftMs > 599.9))).toEqual(new Set([true, false]))
  })

  it('auto: the limited server reads at most its share of the prompts, and the longest ones', async () => {
    const { records, sum } = await run({
      disco: { constrained: 'server', share: 0.4, deviceDollarsPerToken: cheap },
      price: dear,
    })
    const share =
      sum((record) => Math.min(record.serverPromptTokens, record.promptTokens)) / sum(({ promptTokens }) => promptTokens)
    expect(share).toBeGreaterThan(0.25)
    expect(share).toBeLessThan(0.45)
    const asked = records.slice(20).filter(({ serverPromptTokens }) => serverPromptTokens > 0)
    const spared = records.slice(20).filter(({ serverPromptTokens }) => serverPromptTokens === 0)
    const mean = (of: readonly AnswerRecord[]) => of.reduce((total, { promptTokens }) => total + promptTokens, 0) / of.length
    expect(mean(asked)).toBeGreaterThan(mean(spared))
  })

  it('auto: a limited device starts where the server is late', async () => {
    const ttftMs: z.input<typeof Distribution> = { kind: 'samples', values: [...Array.from({ length: 19 }, () => 300), 20_000] }
    const { records } = await run({ ttftMs, disco: { constrained: 'device', share: 0.2, deviceDollarsPerToken: dear } })
    const known = records.slice(40).map((record) => record.ttftMs)
    expect(Math.max(...known)).toBeLessThan(5_000)
    expect(Math.max(...(await run({ mode: 'cloud', ttftMs })).records.map((record) => record.ttftMs))).toBeCloseTo(20_000)
  })

  it('auto: the answer moves to the side that decodes for less, and the reader notices nothing', async () => {
    const disco = { constrained: 'device', share: 1, deviceDollarsPerToken: dear } as const
    const { records, sum, result } = await run({ ttftMs: 1_000, disco })
    expect(result.all.bufferedTokens.mean).toBeGreaterThanOrEqual(5)
    expect(sum(({ migrations }) => migrations)).toBeGreaterThan(20)
    for (const { stalledMs, delayedTokens } of records) expect([stalledMs < 1e-6, delayedTokens]).toEqual([true, 0])
    const stays = await run({ ttftMs: 1_000, disco: { ...disco, migrates: false } })
    expect(stays.sum(({ migrations }) => migrations)).toBe(0)
    expect(sum(({ deviceOutputTokens }) => deviceOutputTokens)).toBeLessThan(
      stays.sum(({ deviceOutputTokens }) => deviceOutputTokens) / 2,
    )
  })

  it('chance: so many answers as the share says are the limited side’s, whatever the server’s times', async () => {
    const { records } = await run({ disco: { dispatch: 'chance', constrained: 'server', share: 0.25, migrates: false } })
    const byServer = records.filter(({ serverOutputTokens }) => serverOutputTokens === 40)
    const byDevice = records.filter(({ deviceOutputTokens }) => deviceOutputTokens === 40)
    expect(byServer.length + byDevice.length).toBe(80)
    expect(byServer.length).toBeGreaterThan(10)
    expect(byServer.length).toBeLessThan(30)
  })

  it('cheap: the side that costs less answers; the price of energy follows the battery', async () => {
    expect((await run({ mode: 'cheap', price: dear })).sum(({ serverPromptTokens }) => serverPromptTokens)).toBe(0)
    const { sum } = await run({ mode: 'cheap', disco: { deviceDollarsPerToken: dear } })
    expect(sum(({ devicePromptTokens }) => devicePromptTokens)).toBe(0)
    expect(sum(({ dollars }) => dollars)).toBeCloseTo(1e-7 * sum(({ promptTokens }) => promptTokens + 40))
  })

  it('a device that writes an answer has no part in the next; one without a small model asks the server', async () => {
    const { records, result } = await run({ mode: 'race', ttftMs: 100_000, devices: 1, perS: 1 })
    const [first, second] = records.sort((a, b) => a.id - b.id) as [AnswerRecord, AnswerRecord]
    expect([first.devicePromptTokens > 0, second.devicePromptTokens]).toEqual([true, 0])
    expect(result.devices.phones!.busyShare).toBeLessThanOrEqual(1)
    const without = await run({ smallModels: [] })
    expect(without.sum(({ serverOutputTokens }) => serverOutputTokens)).toBe(80 * 40)
  })

  it('the cloud’s own model is a server, too, over the device’s link', async () => {
    const records: AnswerRecord[] = []
    const scenario = Scenario.parse({
      name: 'cloud',
      cloud: { model: 'llama3-8b', gpu: 'a100-80', dollarsPerToken: cheap },
      devices: [{ ...phones, count: 4, link: { up: 1e6, down: 1e6, rttMs: 80 } }],
      policies: { disco: { deviceDollarsPerToken: dear, constrained: 'device', share: 0.5 } },
      workload: {
        requests: 12,
        arrivals: { kind: 'poisson', perS: 0.1 },
        promptTokens: 30,
        outputTokens: 20,
        modes: [{ mode: 'auto' }],
      },
    })
    const { engines, devices } = await runScenario(scenario, { onRecord: (record) => records.push(record) })
    expect(records.map(({ tokens, refusal }) => [tokens, refusal])).toEqual(records.map(() => [20, undefined]))
    expect(Math.min(...records.map(({ ttftMs }) => ttftMs))).toBeGreaterThan(80)
    expect(engines[0]!.busyS).toBeGreaterThan(0)
    expect(devices.phones!.upBytes).toBeGreaterThan(600)
  })

  it('energy is what the small model has computed, thrown away or not', async () => {
    const { records } = await run({ mode: 'race', ttftMs: 100 })
    for (const { joules, ttftMs } of records) if (Math.abs(ttftMs - 100) < 0.001) expect(joules).toBeCloseTo(5 * 0.1)
  })
})
