import { describe, expect, it } from 'vitest'
import { StateMonitor } from '../../../../core/policy/estimate/state-monitor.ts'
import { ChunkAdvice } from '../../../../core/policy/hat/chunk-advice.ts'
import { startDataPlane, testModelId } from '../../../support/data-plane.ts'
import { scriptedPart } from '../../../support/scripted-part.ts'
import { stepOf } from '../../../support/steps.ts'
import { connectDevice } from '../../../support/test-device.ts'

const fast = { upBytesPerS: 1e9, prefillTokensPerS: 1e9 }
const slow = { upBytesPerS: 1, prefillTokensPerS: 1e9 }

/** 5 ms a step and 0.1 ms a token. */
const learn = (monitor: StateMonitor) => {
  for (let at = 0; at < 400; at += 1) {
    const tokens = at % 2 === 0 ? 1 : 512
    monitor.record({ tokens, attended: 0, cached: 0, besidePrompt: tokens }, 0.005 + tokens * 1e-4)
  }
}

function advice(pipeline = 1) {
  const monitor = new StateMonitor()
  const limits = { minTokens: 16, maxTokens: 512 }
  return { monitor, chunks: new ChunkAdvice({ monitor, bytesPerToken: 256, limits, pipeline, initialTokens: 128 }) }
}

describe('chunk sizes of a session', () => {
  it('stay as configured while device or cloud are unknown', () => {
    const { monitor, chunks } = advice()
    expect([chunks.revise(slow), chunks.tokens]).toEqual([false, 128])
    monitor.record(stepOf(64), 0.01)
    expect([chunks.revise(undefined), chunks.tokens]).toEqual([false, 128])
  })

  it('follow the link: small frames over a slow one, large ones over a fast one', () => {
    const { monitor, chunks } = advice()
    monitor.record(stepOf(64), 0.01)
    expect([chunks.revise(slow), chunks.tokens]).toEqual([true, 16])
    expect([chunks.revise(fast), chunks.tokens]).toEqual([true, 512])
  })

  it('are those of HAT Eq. 3 for as many stages as the cloud has', () => {
    const sizes = [1, 2, 4].map((pipeline) => {
      const { monitor, chunks } = advice(pipeline)
      // The link takes 0.5 ms a token.
      learn(monitor)
      chunks.revise({ upBytesPerS: 256 / 5e-4, prefillTokensPerS: 1e9 })
      const { batchTokens } = monitor
      // X·tokenS = (g(μ) + g(μ + X)) / P with g(x) = 5 ms + x·0.1 ms, solved for X.
      const exact = (2 * (0.005 + batchTokens * 1e-4)) / (pipeline * 5e-4 - 1e-4)
      return { tokens: chunks.tokens, exact }
    })
    for (const { tokens, exact } of sizes) expect(Math.abs(tokens - exact)).toBeLessThanOrEqual(1)
    expect(new Set(sizes.map(({ tokens }) => tokens)).size).toBe(3)
  })

  it('stay while neither link nor cloud has changed by a fifth', () => {
    const { monitor, chunks } = advice()
    learn(monitor)
    const rates = { upBytesPerS: 256 / 5e-4, prefillTokensPerS: 1e9 }
    chunks.revise(rates)
    const first = chunks.tokens
    expect(chunks.revise({ ...rates, upBytesPerS: rates.upBytesPerS * 1.15 })).toBe(false)
    expect(chunks.tokens).toBe(first)
    expect(chunks.revise({ ...rates, upBytesPerS: rates.upBytesPerS * 1.3 })).toBe(true)
    expect(chunks.tokens).toBeGreaterThan(first)
  })
})

describe('a device in the middle of its prompt', () => {
  const rows = (count: number) => ({ rows: count, width: 2, half: new Uint16Array(count * 2).fill(0x3c00) })

  it('receives another size once the bridge knows the rates of the device and the time of a step', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const session = await device.open(testModelId)
    expect(session.chunkTokens).toBe(16)
    device.sendMessage({ type: 'rates', ...slow })
    await device.rows(session, { base: 0, states: rows(16), want: 0 })
    await expect
      .poll(() => device.messages.filter(({ type }) => type === 'advice'))
      .toEqual([{ type: 'advice', session: session.hex, chunkTokens: 4 }])
  })

  it('receives that size in the terms of its next session', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    await device.rows(await device.open(testModelId), { base: 0, states: rows(16) })
    device.sendMessage({ type: 'rates', ...slow })
    expect((await device.open(testModelId)).chunkTokens).toBe(4)
  })
})
