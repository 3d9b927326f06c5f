import { request as httpRequest } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { hatEndpoint } from '../../../agent/hat/endpoint.ts'
import { type DeviceModel, openDeviceModel } from '../../../agent/hat/open-device-model.ts'
import { PrefixMemory } from '../../../agent/hat/prefix-memory.ts'
import { systemClock, untilAborted } from '../../../core/kit/base/clock.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { adapterDrafter } from '../../../core/model/draft/adapter-drafter.ts'
import { openBundle } from '../../../core/model/engine/open-bundle.ts'
import { compareWithReference } from '../../../core/model/engine/reference.ts'
import type { Sampling } from '../../../core/model/engine/sampler.ts'
import { DeviceSpeed } from '../../../core/policy/hat/device-speed.ts'
import { startAgentWorld } from '../../support/agent-world.ts'
import { alteredPart } from '../../support/altered-part.ts'
import { startTestApi } from '../../support/api.ts'
import { dataLinkTo } from '../../support/data-link.ts'
import { postJson } from '../../support/post-json.ts'
import { recordingLogger } from '../../support/recording-logger.ts'
import { shared } from '../../support/shared.ts'

const world = shared(startAgentWorld)
let device: DeviceModel
beforeAll(async () => {
  device = await openDeviceModel({ bundle: world.bundle, threads: 1, medusa: false })
})
afterAll(() => device.close())

/** An API of this device that calls `onStep` before its `step`-th input step, or before it opens a session (0). */
async function startObservedApi(step: number, onStep: () => void) {
  const link = dataLinkTo(world.bridge.dataUrl, { device: 'left' })
  const { dims, modelId } = device.manifest
  const { logger, lines } = recordingLogger('info')
  let steps = 0
  const input = alteredPart(device.input, {
    before() {
      steps += 1
      if (steps === step) onStep()
    },
  })
  const { head, adapter } = device
  const hat = {
    dims,
    input,
    head,
    speed: new DeviceSpeed(),
    patienceMs: 0,
    prefixes: new PrefixMemory(systemClock),
    wire: 'fp16' as const,
    padding: true,
    prefill: 'chunked' as const,
    draftAhead: true,
    threshold: 0.6,
    draftLimit: 8,
    clock: systemClock,
    createDrafter: (sampling: Sampling) => adapterDrafter(adapter!, head, sampling),
    async open(signal: AbortSignal) {
      if (step === 0) {
        onStep()
        // The agent has noticed that the client disconnected.
        await untilAborted(signal)
      }
      return link.open(modelId, signal)
    },
  }
  const api = await startTestApi(device.manifest, hatEndpoint(hat, device.text), { logger })
  return {
    api,
    input,
    lines,
    async [Symbol.asyncDispose]() {
      await api.close()
      await link.close()
    },
  }
}

describe('a client that disconnects', () => {
  const moments = [
    ['while a session is opened', 0],
    ['in prefill', 2],
    ['in a round', 9],
    ['in a late round', 60],
  ] as const
  it.each(moments.flatMap(([moment, step]) => [true, false].map((stream) => [moment, stream, step] as const)))(
    '%s stops the answer on both sides, without a logged warning (stream: %s)',
    async (_, stream, step) => {
      const leaving = new AbortController()
      await using device = await startObservedApi(step, () => leaving.abort())
      const body = JSON.stringify({ prompt: Array.from({ length: 40 }, () => 5), max_tokens: 400, temperature: 0, stream })
      const request = httpRequest(`${device.api.url}/v1/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        signal: leaving.signal,
      })
      request.on('response', (response) => response.on('error', () => {}).resume())
      request.on('error', () => {})
      request.end(body)
      await new Promise<void>((closed) => request.once('close', () => closed()))
      await expect
        .poll(() => device.lines.map(({ msg }) => msg))
        .toContain('the client disconnected before the end of its answer')
      await expect.poll(async () => (await world.bridgeHealth()).kvBytes).toBe(0)
      expect(await world.bridgeHealth()).toMatchObject({ sessions: 0 })
      expect(device.input.usedBytes()).toBe(0)
      const { length } = device.lines
      // Waits for all work of the API.
      await device.api.close()
      expect(device.lines.slice(length)).toEqual([])
      expect(device.lines.filter((line) => Number(line.level) >= 40)).toEqual([])
    },
  )
})

it('concurrent clients, some of which disconnect, get the reference’s answers, and all KV is freed', async () => {
  const model = await openBundle(world.bundle, { parts: 'chain', threads: 1 })
  const chain = model.chain({ cuts: 'half' })
  const { eos } = model.manifest.tokens
  const random = seededRandom(6)
  const requests = Array.from({ length: 24 }, (_, at) => {
    const prompt = Array.from({ length: 1 + Math.floor(random.next() * 50) }, () => 3 + Math.floor(random.next() * 300))
    const sampling = { temperature: at % 2 === 0 ? 0 : 0.8, topK: 0, topP: 1, seed: at }
    return { prompt, sampling, leavesAfterMs: at % 3 === 0 ? Math.floor(random.next() * 200) : undefined }
  })
  const answers = await Promise.all(
    requests.map(async ({ prompt, sampling, leavesAfterMs }, at) => {
      const body = {
        prompt,
        max_tokens: leavesAfterMs === undefined ? 20 : 400,
        temperature: sampling.temperature,
        seed: sampling.seed,
        stream: leavesAfterMs !== undefined && at % 2 === 0,
        brim: { token_ids: true },
      }
      const signal = leavesAfterMs === undefined ? null : AbortSignal.timeout(leavesAfterMs)
      const response = postJson(`${world.agent.apiUrl}/v1/completions`, body, {}, signal)
      if (leavesAfterMs === undefined) return ((await (await response).json()) as { brim: { tokenIds: number[] } }).brim.tokenIds
      await response.then((streaming) => streaming.text()).catch(() => {})
      return undefined
    }),
  )
  for (const [at, { prompt, sampling }] of requests.entries()) {
    const tokenIds = answers[at]
    if (!tokenIds) continue
    expect(await compareWithReference(chain, prompt, sampling, tokenIds), `request ${at}`).toMatchObject({ identical: true })
    expect(tokenIds.length === 20 || eos.includes(tokenIds.at(-1)!)).toBe(true)
  }
  expect(answers.filter(Boolean)).toHaveLength(16)
  await expect.poll(() => world.bridgeHealth()).toMatchObject({ sessions: 0, kvBytes: 0 })
  await model.release()
})
