import { describe, expect, it } from 'vitest'
import { type AgentSettings, readAgentConfig } from '../../../agent/config.ts'
import type { ActiveModels } from '../../../agent/models/active-models.ts'
import { openBudget } from '../../../agent/parts/budget.ts'
import { createClosers } from '../../../core/kit/base/closers.ts'
import type { ClockReading } from '../../../core/kit/base/steady-wall-clock.ts'
import { DeviceSpeed } from '../../../core/policy/hat/device-speed.ts'
import { fixtureHost } from '../../support/device-fixture.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

/** Of Qwen 2.5 with half a billion parameters. */
const dims = { layers: 24, hidden: 896, heads: 14, kvHeads: 2, headDim: 64, ffn: 4_864, vocab: 151_936, contextLimit: 32_768 }
const { signal } = new AbortController()

function deviceLike(fixture: string, settings: Partial<AgentSettings> = {}, clocks?: () => ClockReading) {
  const dir = tempDir()
  const device = fixtureHost(fixture)
  const closers = createClosers()
  const speed = new DeviceSpeed()
  const slm = { source: { dims }, speed } as ActiveModels['slm']
  const config = readAgentConfig({ id: 'phone', stateDir: dir.path, ...settings })
  const clock = fakeClock()
  const base = { config, clock, closers, logger: silentLogger(), recording: undefined }
  const { budget, sampler } = openBudget(base, { slm }, device.host, clocks)
  return {
    device,
    clock,
    speed,
    budget,
    sample: () => sampler.sample(signal),
    get energy() {
      const { energySource, decodeJPerToken, energyReason, dollarsPerJoule } = budget.report.slm
      return { energySource, decodeJPerToken, energyReason, dollarsPerKwh: Math.round(3.6e7 * dollarsPerJoule!) / 10 }
    },
    async [Symbol.asyncDispose]() {
      await closers.closeAll()
      device[Symbol.dispose]()
      dir[Symbol.dispose]()
    },
  }
}

describe('the energy of a token', () => {
  it('is estimated from the size of the model until it is measured', async () => {
    await using jetson = deviceLike('orin-nano-jp6')
    // About one multiplication per parameter, at 5 GFLOP per joule.
    expect(jetson.energy).toMatchObject({ energySource: 'flops', decodeJPerToken: expect.closeTo(0.13, 1) })
    jetson.speed.recordPrefill(100, 1)
    jetson.speed.recordDecode(0.5)
    await jetson.sample()
    expect(jetson.energy.energySource).toBe('flops')
    const endStep = jetson.speed.beginStep()
    await jetson.sample()
    endStep()
    // 4.854 W at 2 tokens/s
    expect(jetson.energy).toMatchObject({ energySource: 'measured', decodeJPerToken: 2.425 })
    expect(jetson.budget.costs('slm')!.output).toBeCloseTo(2.425 * jetson.budget.report.slm.dollarsPerJoule!)
  })

  it('is worth little on mains power, more as the battery empties, and most where its level is unknown', async () => {
    await using jetson = deviceLike('orin-nano-jp6')
    expect(jetson.energy).toMatchObject({ energyReason: 'unknown', dollarsPerKwh: 90 })
    await jetson.sample()
    expect(jetson.energy).toMatchObject({ energyReason: 'mains', dollarsPerKwh: 5.4 })

    await using laptop = deviceLike('laptop')
    await laptop.sample()
    // At 60 %, halfway to 20 % on a logarithmic scale.
    expect(laptop.energy).toMatchObject({ energyReason: 'battery', dollarsPerKwh: 22 })
    laptop.device.set({ '/sys/class/power_supply/AC/online': '1\n' })
    await laptop.sample()
    expect(laptop.energy.energyReason).toBe('mains')

    await using phone = deviceLike('termux')
    await phone.sample()
    expect(phone.energy.energyReason).toBe('battery')
  })

  it('is the same whether or not telemetry is reported', async () => {
    await using jetson = deviceLike('orin-nano-jp6', { telemetryS: 0 })
    await expect.poll(() => jetson.energy).toMatchObject({ energyReason: 'mains', dollarsPerKwh: 5.4 })
    await using laptop = deviceLike('laptop', { telemetryS: 0 })
    await expect.poll(() => laptop.energy.energyReason).toBe('battery')
    laptop.device.set({ '/sys/class/power_supply/AC/online': '1\n' })
    await laptop.clock.advance(30_000)
    await expect.poll(() => laptop.energy.energyReason).toBe('mains')
  })

  it('counts a phone that hides its battery as nearly empty', async () => {
    await using phone = deviceLike('termux')
    Object.assign(phone.device.host, { run: async () => undefined })
    await phone.sample()
    expect(phone.energy).toMatchObject({ energyReason: 'unknown', dollarsPerKwh: 90 })
  })

  it("is worth what the owner says, before the device's own view", async () => {
    await using laptop = deviceLike('laptop', { budget: { energyPrice: 0.25 } })
    await laptop.sample()
    expect(laptop.energy.energyReason).toBe('setting')
    expect(laptop.budget.report.slm.dollarsPerJoule).toBeCloseTo(0.25 / 3.6e6)
  })
})

it('limits the dearer side, or the one that the owner names', async () => {
  const server = { at: 'bridge', price: '0.001/0.001' } as const
  await using unpriced = deviceLike('server')
  expect(unpriced.budget.report.auto).toMatchObject({ constrained: 'server', maxShare: 0.5 })
  await using cheap = deviceLike('server', { server })
  expect(cheap.budget.report.auto.constrained).toBe('device')
  expect(cheap.budget.report.server).toMatchObject({ dollars: 0, promptDollarsPerToken: 1e-9 })
  await using forced = deviceLike('server', { server, dispatch: { constrained: 'server', share: 0.2 } })
  expect(forced.budget.report.auto).toMatchObject({ constrained: 'server', maxShare: 0.2 })
})

it('forgets what was spent as the machine is up or asleep, whatever its time of day', async () => {
  const now = { wallMs: Date.UTC(2026, 10, 22), upMs: 1_000, boot: 'a' }
  await using device = deviceLike('server', { server: { at: 'bridge', price: '1/1' } }, () => now)
  const estimate = { promptTokens: 5, tokens: 5 }
  const sides = { remote: { spender: 'server', estimate, limits: estimate, isBackup: false } } as const
  const answer = await device.budget.admit({ sides, promptTokens: 5, isAuto: false }, signal)
  answer.start('remote', { promptTokens: 5, limits: estimate, isBilled: false })
  answer.end()
  expect(device.budget.report.server.promptTokens).toBe(5)
  now.wallMs = Date.UTC(2026, 10, 24)
  expect(device.budget.report.server.promptTokens).toBe(5)
  now.upMs += 25 * 3_600_000
  expect(device.budget.report.server.promptTokens).toBe(0)
})
