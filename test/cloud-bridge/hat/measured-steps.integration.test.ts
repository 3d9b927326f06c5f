import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { StateMonitor } from '../../../core/policy/estimate/state-monitor.ts'
import { loadOf } from '../../../core/policy/estimate/step-time.ts'
import { ChunkAdvice } from '../../../core/policy/hat/chunk-advice.ts'
import { rowBytes } from '../../../core/wire/protocol/frame.ts'
import type { LoggedStep } from '../../../core/wire/protocol/http/bridge.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { randomStates } from '../../support/random-states.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'
import { connectDevice, type OpenSession, type TestDevice } from '../../support/test-device.ts'
import { tinyBundle } from '../../support/tiny-bundle.ts'

const bundle = shared(tinyBundle)
const dir = shared(tempDir)
let width: number
beforeAll(async () => {
  width = bundle.manifest.dims.hidden
})

const settings = { tokenBudget: 96, chunkTokens: 20, frameTokens: 80 }

/** Frames of a prompt, each of which is one step. */
async function prefill(device: TestDevice, session: OpenSession, sizes: readonly number[]): Promise<void> {
  let base = 0
  for (const size of sizes) {
    await device.rows(session, { base, states: randomStates(size, width, base), want: 1 })
    base += size
  }
}

/** Checks the prediction of each step. @returns the monitor that the bridge must have after these steps */
function replay(steps: readonly LoggedStep[]): StateMonitor {
  const monitor = new StateMonitor()
  let contextLength = 0
  for (const { index, tokens, computeMs, predictedMs } of steps) {
    const load = loadOf([{ rows: tokens, contextLength }])
    if (index === 0) expect(predictedMs).toBeNull()
    else expect(predictedMs).toBeCloseTo(monitor.g.at(load)! * 1_000, 9)
    // One row is no part of a prompt: all of it returns.
    monitor.record({ ...load, besidePrompt: tokens === 1 ? 1 : 0 }, computeMs / 1_000)
    contextLength += tokens
  }
  return monitor
}

describe('a bridge that measures its steps', () => {
  it('predicts the next steps at /v1/steps, and advises the chunk sizes of HAT Eq. 3', async () => {
    await using bridge = await startTestBridge({ ...settings, bundle: bundle.path, stateDir: join(dir.path, 'bridge') })
    await using device = await connectDevice(bridge.dataUrl, 'jetson-01', width)
    const sizes = [4, 48, 48, 5, 17, 80, 1, 33]
    await prefill(device, await device.open(bridge.modelId), sizes)
    const { steps } = (await (await fetch(`${bridge.httpUrl}/v1/steps`)).json()) as { steps: LoggedStep[] }
    expect(steps.map(({ tokens }) => tokens)).toEqual(sizes)
    const monitor = replay(steps)
    // A link on which Eq. 3 holds for a chunk of 50 tokens, which is within the limits.
    const { batchTokens } = monitor
    const { baseS, tokenS: stepTokenS } = monitor.line!
    const tokenS = (2 * baseS + stepTokenS * (2 * batchTokens + 50)) / 50
    const bytesPerToken = rowBytes('fp16', width)
    const rates = { upBytesPerS: bytesPerToken / tokenS, prefillTokensPerS: 1e9 }
    const limits = { minTokens: 16, maxTokens: 80 }
    const advice = new ChunkAdvice({ monitor, bytesPerToken, limits, pipeline: 1, initialTokens: 20 })
    advice.revise(rates)
    device.sendMessage({ type: 'rates', ...rates })
    const next = await device.open(bridge.modelId)
    expect(next.chunkTokens).toBe(advice.tokens)
  })
})
