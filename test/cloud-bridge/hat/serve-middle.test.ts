import { describe, expect, it } from 'vitest'
import { type BridgeSettings, readBridgeConfig } from '../../../cloud-bridge/config.ts'
import { serveMiddle } from '../../../cloud-bridge/hat/serve-middle.ts'
import type { Peer } from '../../../cloud-bridge/hat/sessions.ts'
import { splitModel } from '../../../cloud-bridge/serving/served-model.ts'
import type { Manifest } from '../../../core/model/bundle/manifest.ts'
import { sequenceBytesOf } from '../../../core/model/engine/stacked-sequence.ts'
import type { DeviceRates } from '../../../core/policy/hat/chunk-advice.ts'
import type { ReaderState, ServingPolicy } from '../../../core/policy/serving/policy.ts'
import { createPolicy, type PolicyOptions } from '../../../core/policy/tokenflow/named-policies.ts'
import { decodeFrame, encodeFrame, type Frame } from '../../../core/wire/protocol/frame.ts'
import { type FakeClock, fakeClock } from '../../support/fake-clock.ts'
import { type ScriptedPart, scriptedPart } from '../../support/scripted-part.ts'
import { silentLogger } from '../../support/silent-logger.ts'

const width = 2
const modelId = 'ab'.repeat(32)
const manifest = { modelId, dims: { hidden: width, contextLimit: 1_024 } } as Manifest
const rows = (n: number) => ({ rows: n, width, half: new Uint16Array(n * width).fill(0x3c00) })

interface World {
  readonly clock: FakeClock
  readonly part: ScriptedPart
  readonly middle: ReturnType<typeof serveMiddle>
  /** Frames sent to the device. */
  readonly frames: Frame[]
  readonly peer: Peer
  open(options?: Parameters<World['middle']['sessions']['open']>[2]): Promise<TestSession>
}

interface TestSession {
  readonly id: bigint
  readonly held: number
  readonly chunkTokens: number
  /** Sends a frame; resolves when the bridge has replied to it. */
  send(base: number, n: number, want: number): Promise<void>
}

interface ServeOptions {
  readonly manual?: boolean
  readonly rates?: DeviceRates
  readonly servingPolicy?: (options: PolicyOptions) => ServingPolicy
}

/** The middle part as the bridge serves it, with a scripted part, a fake clock and a recording connection. */
function serve(settings: Partial<BridgeSettings> = {}, options: ServeOptions = {}): World {
  const clock = fakeClock()
  const part = scriptedPart({ manual: options.manual ?? false })
  const config = readBridgeConfig({ bundle: 'bundle', stateDir: 'state', ...settings })
  const middle = serveMiddle(config, [{ served: splitModel(part), manifest, slots: 4 }], {
    clock,
    logger: silentLogger(),
    onCount: () => {},
    servingPolicy: options.servingPolicy,
  })
  const frames: Frame[] = []
  const peer: Peer = {
    device: 'jetson-01',
    rates: options.rates,
    rttMs: undefined,
    send: (bytes) => frames.push(decodeFrame(bytes)),
    advise: () => {},
  }
  return {
    clock,
    part,
    middle,
    frames,
    peer,
    async open(openOptions) {
      const opened = await middle.sessions.open(peer, modelId, openOptions)
      if (opened.kind === 'refused') throw new Error(opened.message)
      const { session: id, epoch, held, chunkTokens } = opened
      let seq = 0
      return {
        id,
        held,
        chunkTokens,
        send(base, n, want) {
          seq += 1
          return middle.sessions.receive(peer, encodeFrame({ type: 'rows', session: id, epoch, seq, base, want }, rows(n)))
        },
      }
    },
  }
}

const stepRows = ({ part }: World) => part.steps.map((step) => step.map((item) => item.rows))

describe('the middle part as configured', () => {
  it('reports in each reply how long the frame waited and how long it was computed, in ms', async () => {
    const world = serve({}, { manual: true })
    const [first, second] = [await world.open(), await world.open()]
    const running = first.send(0, 1, 1)
    await expect.poll(() => world.part.steps.length).toBe(1)
    const waiting = second.send(0, 1, 1)
    await world.clock.advance(30)
    await world.part.finishStep()
    await running
    await expect.poll(() => world.part.steps.length).toBe(2)
    await world.clock.advance(10)
    await world.part.finishStep()
    await waiting
    expect(world.frames.map(({ queueMs, computeMs }) => ({ queueMs, computeMs }))).toEqual([
      { queueMs: 0, computeMs: 30 },
      { queueMs: 30, computeMs: 10 },
    ])
  })

  it('limits the rows of prompts to promptTokens while a stream decodes, and for half a second after', async () => {
    const world = serve({ promptTokens: 100, tokenBudget: 512, draftLimit: 20 })
    const [decoding, prompting] = [await world.open(), await world.open()]
    await decoding.send(0, 21, 21)
    await prompting.send(0, 150, 1)
    // More rows than the draft limit count as a prompt, even if all of them are returned.
    await decoding.send(21, 22, 22)
    await prompting.send(150, 120, 120)
    expect(stepRows(world)).toEqual([[21], [100], [50], [22], [100], [20]])
    await world.clock.advance(500)
    await prompting.send(270, 150, 1)
    expect(stepRows(world).at(-1)).toEqual([150])
  })

  it('charges each session chunkTokens positions of KV at first, within kvBudgetBytes', async () => {
    const positions = 2 * 60
    const kvBudgetBytes = positions * sequenceBytesOf(() => scriptedPart().createSequence()).bytesPerPosition
    const world = serve({ chunkTokens: 60, kvBudgetBytes, limits: { deviceKvPercent: 100 } })
    await world.open()
    await world.open()
    expect(world.middle.serving.memory.usedBytes).toBe(world.middle.serving.memory.budgetBytes)
    await expect(world.open()).rejects.toThrow('KV memory is full')
  })

  it('ends a session that was idle for sessionIdleS, at most a quarter of that time late', async () => {
    const world = serve({ sessionIdleS: 8 })
    await world.open()
    await world.clock.advance(7_999)
    expect(world.middle.sessions.count).toBe(1)
    await world.clock.advance(2_001)
    expect(world.middle.sessions.count).toBe(0)
  })

  it('caches a prefix for prefixKeepS', async () => {
    const world = serve({ prefixKeepS: 5 })
    const keep = async () => {
      const session = await world.open()
      await session.send(0, 10, 1)
      return (await world.middle.sessions.close(world.peer, session.id, 10))!
    }
    const [early, late] = [await keep(), await keep()]
    await world.clock.advance(4_999)
    expect((await world.open({ resume: { handle: early, length: 10 } })).held).toBe(10)
    await world.clock.advance(1)
    expect((await world.open({ resume: { handle: late, length: 10 } })).held).toBe(0)
  })

  it('opens at most deviceSessions sessions for one device', async () => {
    const world = serve({ limits: { deviceSessions: 2 } })
    await world.open()
    const second = await world.open()
    await expect(world.open()).rejects.toThrow('2 open sessions')
    await world.middle.sessions.close(world.peer, second.id)
    await world.open()
    expect(world.middle.sessions.count).toBe(2)
  })

  it('advises chunks by the bytes that a row has on the wire of the session', async () => {
    // 0.5 ms a byte: a row of 4 bytes (fp16) takes 2 ms, one of 6 bytes (int8 and its scale) 3 ms.
    const world = serve({}, { manual: true, rates: { upBytesPerS: 2_000, prefillTokensPerS: 1e9 } })
    const session = await world.open()
    const sent = session.send(0, 8, 8)
    await expect.poll(() => world.part.steps.length).toBe(1)
    await world.clock.advance(12)
    await world.part.finishStep()
    await sent
    // One step of 8 tokens took 12 ms: half of it for the step, and 0.75 ms a token. Eq. 3: X · 2 ms = 24 ms + X · 0.75 ms.
    expect(world.middle.steps.list()).toMatchObject([{ tokens: 8, computeMs: 12 }])
    const [half, int8] = [await world.open({ wire: 'fp16' }), await world.open({ wire: 'int8' })]
    expect([half.chunkTokens, int8.chunkTokens]).toEqual([20, 16])
  })

  it('schedules a session by the rate and the unread tokens that its device reports', async () => {
    const seen: (ReaderState | undefined)[] = []
    const servingPolicy = (of: PolicyOptions): ServingPolicy => {
      const ordinary = createPolicy('decode-first', of)
      return {
        plan(state, nowMs) {
          seen.push(...state.waiting.map(({ reader }) => reader && { ...reader }))
          return ordinary.plan(state, nowMs)
        },
      }
    }
    const world = serve({}, { servingPolicy })
    const session = await world.open()
    await session.send(0, 4, 1)
    world.middle.sessions.report(world.peer, session.id, 8, 6)
    await session.send(4, 1, 1)
    // Six tokens at eight a second.
    expect(seen).toMatchObject([undefined, { tokensPerS: 8, drainedMs: world.clock.nowMs() + 750 }])
  })

  it('does not end a session while one of its frames is computed', async () => {
    const world = serve({ sessionIdleS: 8 }, { manual: true })
    const session = await world.open()
    const sent = session.send(0, 1, 1)
    await expect.poll(() => world.part.steps.length).toBe(1)
    await world.clock.advance(20_000)
    expect(world.middle.sessions.count).toBe(1)
    await world.part.finishStep()
    await sent
    expect(world.frames.map(({ type }) => type)).toEqual(['deep'])
  })

  it('opens no session on a connection that has closed', async () => {
    const world = serve()
    await world.middle.sessions.closePeer(world.peer)
    await expect(world.open()).rejects.toThrow('the connection has closed')
    expect(world.middle.serving.memory.usedBytes).toBe(0)
  })

  it('caches nothing for a connection that closes while its session ends', async () => {
    const world = serve({}, { manual: true })
    const { sessions, serving } = world.middle
    const session = await world.open()
    const first = session.send(0, 10, 1)
    await world.part.finishStep()
    await first
    const running = session.send(10, 1, 1)
    await expect.poll(() => world.part.steps.length).toBe(2)
    const handle = sessions.close(world.peer, session.id, 10)
    await sessions.closePeer(world.peer)
    await world.part.finishStep()
    expect(await handle).toBeUndefined()
    await running
    expect(serving.memory).toMatchObject({ usedBytes: 0, cachedBytes: 0 })
  })

  it('shuts down after the last step of a session that was closed before', async () => {
    const world = serve({}, { manual: true })
    const { sessions } = world.middle
    const session = await world.open()
    const sent = session.send(0, 1, 1)
    await expect.poll(() => world.part.steps.length).toBe(1)
    const closing = sessions.close(world.peer, session.id)
    let isDown = false
    const down = sessions.shutdown({ code: 'LINK_LOST', message: 'the bridge is shutting down' }).then(() => {
      isDown = true
    })
    for (let turn = 0; turn < 4; turn++) await new Promise((next) => setImmediate(next))
    expect(isDown).toBe(false)
    await world.part.finishStep()
    await Promise.all([down, closing, sent])
    expect(world.middle.serving.memory.usedBytes).toBe(0)
  })
})

it('opens no session on a model without a split, and says why', async () => {
  const config = readBridgeConfig({ bundle: 'bundle', stateDir: 'state' })
  const tokens = { create: () => scriptedPart().createSequence(), bytesPerPosition: 8, fixedBytes: 0 }
  const served = { rows: undefined, tokens, step: async () => [] }
  const options = { clock: fakeClock(), logger: silentLogger(), onCount: () => {} }
  const { sessions } = serveMiddle(config, [{ served, manifest, slots: 4 }], options)
  const peer = { device: 'jetson-01', rates: undefined, rttMs: undefined, send: () => {}, advise: () => {} }
  expect(await sessions.open(peer, modelId)).toMatchObject({
    kind: 'refused',
    code: 'SESSION_REFUSED',
    message: 'bridge bridge-1 serves a model without a split: devices cannot take part',
  })
})
