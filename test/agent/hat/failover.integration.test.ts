import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { HatOptions } from '../../../agent/hat/hat-options.ts'
import type { Bridge } from '../../../cloud-bridge/bridge.ts'
import { type Clock, systemClock } from '../../../core/kit/base/clock.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { referenceAnswer } from '../../../core/model/engine/reference.ts'
import { greedy, type Sampling } from '../../../core/model/engine/sampler.ts'
import { portOf, type Relay, startRelay, through } from '../../../lab/cluster/relay.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { dataLinkTo } from '../../support/data-link.ts'
import { startHatWorld } from '../../support/hat-world.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const sampled: Sampling = { temperature: 0.8, topK: 0, topP: 1, seed: 5 }
const random = seededRandom(23)
const randomIds = (count: number) => Array.from({ length: count }, () => Math.floor(random.next() * 160))

const world = shared(() => startHatWorld({ settings: { chunkTokens: 8, draftLimit: 6 } }))
/** A second bridge of the same fleet. */
const other = shared(() => startHatWorld({ bundle: world.bundle, settings: { chunkTokens: 8, draftLimit: 6 } }))

/** A device's link by way of a relay; `onExchange` is called before each frame, with its number. */
const relayed = (relay: Relay, onExchange: (frame: number) => void, clock: Clock = systemClock) =>
  linked(through(relay, world.bridge.dataUrl), onExchange, clock)

function linked(url: string, onExchange: (frame: number) => void, clock: Clock = systemClock) {
  const link = dataLinkTo(url, { device: 'jetson-02', clock })
  let frames = 0
  const options: Partial<HatOptions> = {
    clock,
    async open(signal, sessionOptions) {
      const session = await link.open(world.model.manifest.modelId, signal, sessionOptions)
      const exchange = session.exchange.bind(session)
      session.exchange = (base, rows, want) => {
        frames += 1
        onExchange(frames)
        return exchange(base, rows, want)
      }
      return session
    },
  }
  return { options, [Symbol.asyncDispose]: () => link.close() }
}

describe('an answer whose link fails', () => {
  const prompt = randomIds(45)
  const failures: [string, (relay: Relay) => void][] = [
    ['is cut', (relay) => relay.cut()],
    ['delivers noise', (relay) => relay.garble()],
    [
      'is cut, and then leads to another bridge',
      (relay) => {
        relay.target = portOf(other.bridge.dataUrl)
        relay.cut()
      },
    ],
  ]

  it.each(
    failures.flatMap(
      ([what, breakIt]) =>
        [
          [what, 'prefill', 3, breakIt],
          [what, 'decoding', 12, breakIt],
        ] as const,
    ),
  )('%s in %s continues with the same tokens', async (_, __, at, breakIt) => {
    await using relay = await startRelay(portOf(world.bridge.dataUrl))
    await using device = relayed(relay, (frame) => frame === at && breakIt(relay))
    const { tokens, figures } = await world.answer({ prompt, maxTokens: 24 }, device.options)
    expect(tokens).toEqual(await referenceAnswer(world.chain, prompt, greedy, 24, []))
    expect(figures.failovers).toBe(1)
  })

  it('succeeds when the link fails while its first session is opened', async () => {
    await using relay = await startRelay(portOf(world.bridge.dataUrl))
    await using device = relayed(relay, () => {})
    let opened = 0
    const broken: Partial<HatOptions> = {
      ...device.options,
      open(signal, sessionOptions) {
        const session = device.options.open!(signal, sessionOptions)
        opened += 1
        if (opened === 1) setImmediate(() => relay.cut())
        return session
      },
    }
    // An established connection, which is cut while the session request is in transit.
    await world.answer({ prompt: [5], maxTokens: 1 }, device.options)
    const { tokens } = await world.answer({ prompt, maxTokens: 8 }, broken)
    expect(tokens).toEqual(await referenceAnswer(world.chain, prompt, greedy, 8, []))
  })

  it.each([
    ['both ways', undefined],
    ['on the way up', 'up'],
    ['on the way down', 'down'],
  ] as const)('stalls %s continues within seconds, before a heartbeat is missed', async (_, way) => {
    const hurried: Clock = { nowMs: () => systemClock.nowMs() * 2, sleep: (ms, signal) => systemClock.sleep(ms / 2, signal) }
    await using relay = await startRelay(portOf(world.bridge.dataUrl))
    let stalledMs = 0
    const stall = () => {
      stalledMs = hurried.nowMs()
      relay.stall(way)
    }
    await using device = relayed(relay, (frame) => frame === 9 && stall(), hurried)
    const { tokens, figures } = await world.answer({ prompt, maxTokens: 24 }, device.options)
    expect(hurried.nowMs() - stalledMs).toBeLessThan(15_000)
    expect(tokens).toEqual(await referenceAnswer(world.chain, prompt, greedy, 24, []))
    expect(figures.failovers).toBe(1)
  })

  it('repeatedly, at any point, continues with the same tokens, greedy and sampled', async () => {
    let failovers = 0
    for (let run = 0; run < 20; run++) {
      const ids = randomIds(1 + Math.floor(random.next() * 60))
      const sampling = run % 2 === 0 ? greedy : sampled
      await using relay = await startRelay(portOf(world.bridge.dataUrl))
      let left = 3
      await using device = relayed(relay, () => {
        if (left === 0 || random.next() > 0.15) return
        left -= 1
        failures[Math.floor(random.next() * failures.length)]![1](relay)
      })
      const { tokens, figures } = await world.answer({ prompt: ids, maxTokens: 20, sampling }, device.options)
      expect(tokens).toEqual(await referenceAnswer(world.chain, ids, sampling, 20, []))
      expect(figures.failovers).toBeLessThanOrEqual(3)
      failovers += figures.failovers
    }
    expect(failovers).toBeGreaterThan(20)
    await expect.poll(() => world.sessionsAtBridge()).toBe(0)
    await expect.poll(() => other.sessionsAtBridge()).toBe(0)
  })

  it('continues with the same tokens when its bridge restarts ten times', async () => {
    using dir = tempDir()
    const settings = { bundle: world.bundle, stateDir: join(dir.path, 'restarting') }
    const first = await startTestBridge(settings)
    const ports = { mqttPort: portOf(first.mqttUrl), httpPort: portOf(first.httpUrl) }
    let running: Promise<Bridge> = Promise.resolve(first)
    let starts = 0
    const restart = async (bridge: Bridge) => {
      await bridge.close()
      return startTestBridge({ ...settings, ...ports })
    }
    await using device = linked(first.dataUrl, (frame) => {
      if (frame % 7 !== 0 || starts === 10) return
      starts += 1
      running = running.then(restart)
    })
    const { tokens, figures } = await world.answer({ prompt, maxTokens: 120 }, { ...device.options, patienceMs: 20_000 })
    expect(tokens).toEqual(await referenceAnswer(world.chain, prompt, greedy, 120, []))
    expect(starts).toBe(10)
    expect(figures.failovers).toBeGreaterThan(0)
    await (await running).close()
  })

  it('fails with LINK_LOST when no bridge takes it over in time', async () => {
    const relay = await startRelay(portOf(world.bridge.dataUrl))
    await using device = relayed(relay, (frame) => {
      if (frame !== 9) return
      relay.target = 1
      relay.cut()
    })
    const answer = world.answer({ prompt, maxTokens: 24 }, { ...device.options, patienceMs: 300 })
    await expect(answer).rejects.toMatchObject({ code: 'LINK_LOST', message: expect.stringContaining('in 0.3 s') })
    await relay[Symbol.asyncDispose]()
  })

  it('can be canceled while it waits for a bridge', async () => {
    await using relay = await startRelay(portOf(world.bridge.dataUrl))
    const leaving = new AbortController()
    let isCut = false
    const clock: Clock = {
      nowMs: systemClock.nowMs,
      sleep(ms, signal) {
        if (isCut) leaving.abort(new Error('the client has left'))
        return systemClock.sleep(ms, signal)
      },
    }
    await using device = relayed(
      relay,
      (frame) => {
        if (frame !== 9) return
        relay.target = 1
        relay.cut()
        isCut = true
      },
      clock,
    )
    const answer = world.answer({ prompt, maxTokens: 24 }, device.options, leaving.signal)
    await expect(answer).rejects.toMatchObject({ code: 'CANCELED' })
    expect(leaving.signal.aborted).toBe(true)
    await expect.poll(() => world.sessionsAtBridge()).toBe(0)
  })
})
