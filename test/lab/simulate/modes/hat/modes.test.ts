import { describe, expect, it } from 'vitest'
import { runScenario } from '../../../../../lab/simulate/run/run-scenario.ts'
import type { HatSettings } from '../../../../../lab/simulate/scenario/hat-settings.ts'
import type { ModeName } from '../../../../../lab/simulate/scenario/mode-name.ts'
import { Scenario } from '../../../../../lab/simulate/scenario/scenario.ts'
import type { AnswerRecord } from '../../../../../lab/simulate/world/answer-record.ts'

/** One device alone with the cloud, by default: prompts of 1,000 tokens over 8 and 12 MB/s. */
async function answersOf(
  mode: ModeName,
  {
    devices = 1,
    requests = 6,
    perS = 0.05,
    promptTokens = 1_000,
    outputTokens = 40,
    sharedTokens = 0,
    seed = 1,
    cloud = {},
    hat = {} as Partial<HatSettings>,
  } = {},
) {
  const scenario = Scenario.parse({
    name: 'test',
    seed,
    cloud: { model: 'vicuna-7b', gpu: 'a6000', policy: 'decode-first', promptRows: 2_048, ...cloud },
    devices: [{ name: 'all', count: devices, board: 'agx-orin-32', link: { up: 8e6, down: 12e6, rttMs: 10 } }],
    workload: { requests, arrivals: { kind: 'poisson', perS }, promptTokens, outputTokens, sharedTokens, modes: [{ mode }] },
    policies: { hat },
  })
  const records: AnswerRecord[] = []
  const result = await runScenario(scenario, { onRecord: (record) => records.push(record) })
  return { result, records }
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
const ttftMs = async (...given: Parameters<typeof answersOf>) =>
  mean((await answersOf(...given)).records.map((record) => record.ttftMs))
const tbtMs = async (...given: Parameters<typeof answersOf>) =>
  mean((await answersOf(...given)).records.map((record) => record.tbtMs))

const modes = ['hat', 'u-shape', 'u-shape-lean', 'u-medusa', 'u-sarathi'] as const

describe('answers by the split model', () => {
  it.each(modes)('%s delivers every token of every answer, however many devices ask at once', async (mode) => {
    const { records, result } = await answersOf(mode, { devices: 3, requests: 30, perS: 6, promptTokens: 200 })
    expect(records).toHaveLength(30)
    for (const record of records) {
      expect(record).toMatchObject({ refusal: undefined, tokens: 40, serverPromptTokens: 200, deviceOutputTokens: 40 })
      // The first token belongs to no verification.
      expect(record.gainedTokens).toBe(39)
      expect(record.rounds).toBeGreaterThanOrEqual(1)
    }
    expect(result.isComplete).toBe(true)
  })

  it.each(modes)('%s gives the same answers for the same seed', async (mode) => {
    const given = { devices: 3, requests: 12, perS: 6, promptTokens: 100 }
    const [once, again, other] = [
      await answersOf(mode, given),
      await answersOf(mode, given),
      await answersOf(mode, { ...given, seed: 2 }),
    ]
    expect(again).toEqual(once)
    expect(other).not.toEqual(once)
  })

  it('cannot bring a prompt to the cloud faster than its states travel', async () => {
    // 1,000 states of 8 KiB at 8 MB/s.
    const uploadMs = 1_024
    for (const mode of modes) expect(await ttftMs(mode)).toBeGreaterThan(uploadMs)
    expect(await ttftMs('hat')).toBeLessThan(1.15 * uploadMs)
  })

  it('begins earlier where only one deep state returns, and earlier still where the upload hides the computing', async () => {
    const [hat, lean, all] = [await ttftMs('hat'), await ttftMs('u-shape-lean'), await ttftMs('u-shape')]
    // 999 states of 8 KiB at 12 MB/s.
    expect(all - lean).toBeCloseTo(682, -1)
    expect(hat).toBeLessThan(lean)
  })

  it('loses little where a pipeline computes one piece of a prompt at a time: its chunks are larger', async () => {
    const [overlapping, inTurn] = await Promise.all(
      [true, false].map((pipelinedPrompts) => ttftMs('hat', { cloud: { pipeline: 4, pipelinedPrompts } })),
    )
    expect(inTurn! / overlapping!).toBeLessThan(1.1)
  })

  it('learns its chunks during a prompt, from the rates of device and cloud', async () => {
    // 3,000 states of 8 KiB at 8 MB/s; chunks of 16 would each wait for a step of 26 ms.
    const uploadMs = 3_072
    expect(await ttftMs('hat', { requests: 1, promptTokens: 3_000, hat: { chunkTokens: 16 } })).toBeLessThan(1.15 * uploadMs)
  })

  it('halves the upload with int8 states', async () => {
    const [fp16, int8] = [await ttftMs('hat'), await ttftMs('hat', { hat: { wire: 'int8' } })]
    expect(int8 / fp16).toBeGreaterThan(0.5)
    expect(int8 / fp16).toBeLessThan(0.6)
  })

  it('sends only what the bridge has not cached', async () => {
    const whole = await ttftMs('hat')
    expect((await ttftMs('hat', { sharedTokens: 900 })) / whole).toBeLessThan(0.3)
    expect(await ttftMs('hat', { sharedTokens: 900, hat: { reuse: false } })).toBe(whole)
    const { records } = await answersOf('hat', { sharedTokens: 900 })
    expect(records[0]).toMatchObject({ devicePromptTokens: 1_000, serverPromptTokens: 100 })
  })

  it('reaches the accept length of its drafter', async () => {
    for (const [mode, acceptLength, hat] of [
      ['hat', 2.06, {}],
      ['hat', 3, { acceptLength: 3, draftLimit: 16 }],
      ['u-medusa', 1.89, {}],
      ['u-shape', 1, {}],
    ] as const) {
      const { records } = await answersOf(mode, { requests: 20, outputTokens: 200, promptTokens: 10, hat })
      const [gained, rounds] = [records.map(({ gainedTokens }) => gainedTokens), records.map((record) => record.rounds)]
      expect(Math.abs(mean(gained) / mean(rounds) / acceptLength - 1)).toBeLessThan(0.05)
    }
  })

  it('is faster with drafts, and faster still with drafts made during verifications', async () => {
    const given = { requests: 10, outputTokens: 128, promptTokens: 10 }
    const none = await tbtMs('hat', { ...given, hat: { drafts: false } })
    const waiting = await tbtMs('hat', { ...given, hat: { draftAhead: false } })
    const ahead = await tbtMs('hat', given)
    expect(waiting).toBeLessThan(none)
    expect(ahead).toBeLessThan(waiting)
  })

  it('pads every verification to the longest draft, whatever is drafted', async () => {
    const given = { requests: 1, promptTokens: 10, hat: { padding: true, draftLimit: 4 } }
    const { records, result } = await answersOf('hat', given)
    // States of 8 KiB: the prompt's, and five in each verification; two messages open and close the session.
    const frame = (rows: number) => 40 + 8_192 * rows
    expect(result.devices.all!.upBytes).toBe(2 * 128 + frame(10) + records[0]!.rounds * frame(5))
  })

  it('pays for padding with upload', async () => {
    const upload = async (padding: boolean) =>
      (await answersOf('hat', { promptTokens: 10, hat: { padding } })).result.devices.all!.upBytes
    const [plain, padded] = [await upload(false), await upload(true)]
    expect(padded).toBeGreaterThan(2 * plain)
  })
})
