import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { type WebSocket, WebSocketServer } from 'ws'
import type { DataLink, DataLinkOptions } from '../../../agent/link/data-link.ts'
import type { LinkSession } from '../../../agent/link/link-session.ts'
import { type Clock, systemClock } from '../../../core/kit/base/clock.ts'
import { DeviceSpeed } from '../../../core/policy/hat/device-speed.ts'
import { encodeFault } from '../../../core/wire/protocol/fault.ts'
import { decodeFrame, encodeFrame, type Frame, maxFrameBytes } from '../../../core/wire/protocol/frame.ts'
import { ToBridge, type ToDevice } from '../../../core/wire/protocol/messages.ts'
import type { States } from '../../../core/wire/protocol/states.ts'
import { portOf, startRelay, through } from '../../../lab/cluster/relay.ts'
import { dataLinkTo } from '../../support/data-link.ts'
import { startDataPlane, testModelId } from '../../support/data-plane.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { scriptedPart } from '../../support/scripted-part.ts'

/** Rows by their fp16 bits. */
const rowsOf = (values: number[][]): States => ({
  rows: values.length,
  width: values[0]?.length ?? 0,
  half: Uint16Array.from(values.flat()),
})
const halfNaN = 0x7e00

/** A clock that runs `times` as fast as the system's. */
const hurried = (times: number): Clock => ({
  nowMs: () => systemClock.nowMs() * times,
  sleep: (ms, signal) => systemClock.sleep(ms / times, signal),
})

const never = new AbortController().signal
const links: DataLink[] = []
afterEach(async () => {
  await Promise.all(links.splice(0).map((link) => link.close()))
})

function linkTo(url: string, options: Partial<DataLinkOptions> = {}): DataLink {
  const link = dataLinkTo(url, options)
  links.push(link)
  return link
}

const deepOf = async (session: LinkSession, base: number, rows: States, want: number) => {
  const reply = await session.exchange(base, rows, want)
  if (reply.kind !== 'deep') throw new Error(`answered by ${reply.kind}`)
  return reply.states
}

describe('sessions at a real bridge', () => {
  it('are opened with its chunk advice, and receive the rows that they request', async () => {
    await using bridge = await startDataPlane(scriptedPart())
    const session = await linkTo(bridge.dataUrl).open(testModelId, never)
    expect(session).toMatchObject({ chunkTokens: 16, draftLimit: 4 })
    const rows = rowsOf([
      [1, 2],
      [3, 4],
      [5, 6],
    ])
    expect(await deepOf(session, 0, rows, 2)).toEqual(
      rowsOf([
        [3, 4],
        [5, 6],
      ]),
    )
    expect((await deepOf(session, 3, rows, 0)).rows).toBe(0)
  })

  it('report the rates of link and device, and follow its new chunk size', async () => {
    await using bridge = await startDataPlane(scriptedPart(), { width: 64 })
    const speed = new DeviceSpeed()
    const session = await linkTo(bridge.dataUrl, { speed }).open(testModelId, never)
    const frame = (rows: number) => ({ rows, width: 64, half: new Uint16Array(rows * 64) })
    expect(session.rates.upBytesPerS).toBeUndefined()
    await session.exchange(0, frame(32), 0)
    expect(session.rates.upBytesPerS).toBeGreaterThan(0)
    // The device is so slow that the smallest chunk is advised.
    speed.recordPrefill(20, 20)
    await session.exchange(32, frame(16), 0)
    await expect.poll(() => session.chunkTokens).toBe(4)
  })

  it('time out when the bridge does not open them', async () => {
    await using bridge = await strangeBridge(() => {}, { opens: false })
    const link = linkTo(bridge.url, { clock: hurried(10) })
    await expect.poll(() => link.isResponsive).toBe(true)
    await expect(link.open(testModelId, never)).rejects.toMatchObject({
      code: 'BRIDGE_UNREACHABLE',
      message: expect.stringContaining('5000 ms'),
    })
    expect([link.connected, link.isResponsive]).toEqual([true, false])
  })

  it('are rejected if the link closes while they wait for its connection', async () => {
    await using bridge = await strangeBridge(() => {}, { welcome: false })
    const link = linkTo(bridge.url)
    const opening = expect(link.open(testModelId, never)).rejects.toMatchObject({ code: 'BRIDGE_UNREACHABLE' })
    await link.close()
    await opening
  })

  it('receive their own replies', async () => {
    await using bridge = await startDataPlane(scriptedPart())
    const link = linkTo(bridge.dataUrl)
    const [one, two] = await Promise.all([link.open(testModelId, never), link.open(testModelId, never)])
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, i) => deepOf(i % 2 === 0 ? one : two, Math.floor(i / 2), rowsOf([[i, i + 1]]), 1)),
    )
    expect(replies).toEqual(Array.from({ length: 20 }, (_, i) => rowsOf([[i, i + 1]])))
  })

  it('learn the length that the bridge holds after a gap', async () => {
    await using bridge = await startDataPlane(scriptedPart())
    const session = await linkTo(bridge.dataUrl).open(testModelId, never)
    await session.exchange(0, rowsOf([[1, 2]]), 0)
    expect(await session.exchange(5, rowsOf([[1, 2]]), 1)).toEqual({ kind: 'gap', length: 1 })
  })

  it('end separately when the bridge reports a fault', async () => {
    await using bridge = await startDataPlane(scriptedPart())
    const link = linkTo(bridge.dataUrl)
    const [broken, healthy] = await Promise.all([link.open(testModelId, never), link.open(testModelId, never)])
    await expect(broken.exchange(0, rowsOf([[halfNaN, 1]]), 1)).rejects.toMatchObject({ code: 'FRAME_INVALID' })
    await expect(broken.exchange(0, rowsOf([[1, 1]]), 1)).rejects.toMatchObject({ code: 'FRAME_INVALID' })
    expect(await deepOf(healthy, 0, rowsOf([[7, 8]]), 1)).toEqual(rowsOf([[7, 8]]))
  })

  it('free their KV at the bridge when they are closed', async () => {
    await using bridge = await startDataPlane(scriptedPart())
    const session = await linkTo(bridge.dataUrl).open(testModelId, never)
    expect(bridge.sessions.count).toBe(1)
    session.close()
    await expect.poll(() => bridge.sessions.count).toBe(0)
    expect(bridge.kvBytes()).toBe(0)
    await expect(session.exchange(0, rowsOf([[1, 1]]), 1)).rejects.toMatchObject({ code: 'CANCELED' })
  })

  it('are rejected if device and bridge have different models', async () => {
    await using bridge = await startDataPlane(scriptedPart())
    await expect(linkTo(bridge.dataUrl).open('cd'.repeat(32), never)).rejects.toMatchObject({ code: 'BUNDLE_MISMATCH' })
  })

  it('are rejected with a retry time when the bridge is full', async () => {
    await using bridge = await startDataPlane(scriptedPart(), { sessionsPerDevice: 1 })
    const link = linkTo(bridge.dataUrl)
    await link.open(testModelId, never)
    await expect(link.open(testModelId, never)).rejects.toMatchObject({ code: 'SESSION_REFUSED', hint: 'try again in 1000 ms' })
  })

  it('take rows before the bridge has opened them, once the terms of its sessions are known', async () => {
    await using bridge = await startDataPlane(scriptedPart())
    await using relay = await startRelay(portOf(bridge.dataUrl))
    const link = linkTo(through(relay, bridge.dataUrl))
    const first = await link.open(testModelId, never, { early: true })
    const rows = rowsOf([[1, 2]])
    const reply = await first.exchange(0, rows, 1)
    relay.stall('down')
    // The bridge cannot tell the device that it has opened it.
    const early = await link.open(testModelId, never, { early: true })
    const lost = expect(early.exchange(0, rows, 1)).rejects.toMatchObject({ code: 'LINK_LOST' })
    expect(early).toMatchObject({ held: 0, chunkTokens: first.chunkTokens, frameTokens: first.frameTokens })
    await expect.poll(() => bridge.sessions.count).toBe(2)
    relay.cut()
    await lost
    const again = await link.open(testModelId, never, { early: true })
    expect(await again.exchange(0, rows, 1)).toMatchObject({ states: (reply as { states: States }).states })
  })

  it('that were opened early reject the first exchange when the bridge refuses them', async () => {
    await using bridge = await startDataPlane(scriptedPart(), { sessionsPerDevice: 1 })
    const link = linkTo(bridge.dataUrl)
    await link.open(testModelId, never)
    const early = await link.open(testModelId, never, { early: true })
    const refused = { code: 'SESSION_REFUSED', hint: 'try again in 1000 ms' }
    await expect(early.exchange(0, rowsOf([[1, 2]]), 1)).rejects.toMatchObject(refused)
    expect(early.refusal).toMatchObject(refused)
    await expect(early.exchange(1, rowsOf([[1, 2]]), 1)).rejects.toMatchObject(refused)
  })

  it('reject pending exchanges when the connection is lost, and can be opened again', async () => {
    const part = scriptedPart({ manual: true })
    const bridge = await startDataPlane(part)
    await using relay = await startRelay(portOf(bridge.dataUrl))
    const link = linkTo(through(relay, bridge.dataUrl))
    const session = await link.open(testModelId, never)
    const underWay = session.exchange(0, rowsOf([[1, 2]]), 1)
    const lost = expect(underWay).rejects.toMatchObject({ code: 'LINK_LOST' })
    await expect.poll(() => part.steps.length).toBe(1)
    const closing = bridge[Symbol.asyncDispose]()
    await lost
    await part.finishStep()
    await closing
    await expect.poll(() => link.connected).toBe(false)
    await expect(link.open(testModelId, never)).rejects.toMatchObject({ code: 'BRIDGE_UNREACHABLE' })
    await using again = await startDataPlane(scriptedPart())
    relay.target = portOf(again.dataUrl)
    const next = await link.open(testModelId, never)
    expect(await deepOf(next, 0, rowsOf([[1, 2]]), 1)).toEqual(rowsOf([[1, 2]]))
    expect(again.sessions.count).toBe(1)
  })

  it('survive a bridge that does not read for a while', async () => {
    const clock = fakeClock()
    const part = scriptedPart({ manual: true })
    const width = 32_768
    await using bridge = await startDataPlane(part, { clock, width })
    await using relay = await startRelay(portOf(bridge.dataUrl))
    const link = linkTo(through(relay, bridge.dataUrl), { clock })
    const session = await link.open(testModelId, never)
    const rows: States = { rows: 16, width, half: new Uint16Array(16 * width) }
    // A megabyte each: the bridge stops reading after eight, so it does not see our pings.
    const replies = Array.from({ length: 12 }, (_, at) => session.exchange(16 * at, rows, 0))
    await expect.poll(() => part.steps.length).toBe(1)
    for (let heartbeats = 0; heartbeats < 4; heartbeats++) {
      const before = relay.bytes().down
      await clock.advance(15_000)
      // A ping of the bridge, on its way through real sockets.
      await expect.poll(() => relay.bytes().down).toBeGreaterThan(before)
      await new Promise((done) => setTimeout(done, 20))
    }
    expect(link.connected).toBe(true)
    for (const reply of replies) {
      await part.finishStep()
      expect((await reply).kind).toBe('deep')
    }
  })

  it('are closed at the bridge if the device has given up the request', async () => {
    await using bridge = await startDataPlane(scriptedPart())
    const link = linkTo(bridge.dataUrl)
    await link.open(testModelId, never)
    const cancel = new AbortController()
    const opening = link.open(testModelId, cancel.signal)
    cancel.abort(new Error('canceled'))
    await expect(opening).rejects.toThrow('canceled')
    const next = await link.open(testModelId, never)
    await next.exchange(0, rowsOf([[1, 2]]), 0)
    expect(bridge.sessions.count).toBe(2)
  })

  it('count the bytes on the socket', async () => {
    await using bridge = await startDataPlane(scriptedPart(), { width: 64 })
    await using relay = await startRelay(portOf(bridge.dataUrl))
    const link = linkTo(through(relay, bridge.dataUrl))
    const first = await link.open(testModelId, never)
    first.close()
    await expect.poll(() => bridge.sessions.count).toBe(0)
    const before = relay.bytes()
    const session = await link.open(testModelId, never)
    for (const rows of [1, 3, 16]) await session.exchange(0, { rows, width: 64, half: new Uint16Array(rows * 64) }, rows)
    session.close()
    await expect.poll(() => bridge.sessions.count).toBe(0)
    expect({ up: session.bytesUp, down: session.bytesDown }).toEqual({
      up: relay.bytes().up - before.up,
      down: relay.bytes().down - before.down,
    })
  })
})

describe('the measurements of a connection', () => {
  /** Replies as if the frame had queued for 30 ms and computed for 20 ms. */
  const replyWithTimes = ({ session, epoch, seq, want }: Frame, send: (bytes: Uint8Array) => void) =>
    send(
      encodeFrame(
        { type: 'deep', session, epoch, seq, queueMs: 30, computeMs: 20 },
        { rows: want, width: 64, half: new Uint16Array(want * 64) },
      ),
    )
  const frame = (rows: number): States => ({ rows, width: 64, half: new Uint16Array(rows * 64) })

  it('include the time that the bridge reports for a frame', async () => {
    await using bridge = await strangeBridge(replyWithTimes)
    const session = await linkTo(bridge.url).open(testModelId, never)
    await session.exchange(0, frame(1), 1)
    expect(session.rates.cloudS).toBeCloseTo(0.05, 6)
  })

  it('include the upload rate: bytes of a frame / time until its reply, without the time at the bridge', async () => {
    const clock = fakeClock()
    await using bridge = await strangeBridge((received, send) => {
      void clock.advance(1_050).then(() => replyWithTimes(received, send))
    })
    const session = await linkTo(bridge.url, { clock }).open(testModelId, never)
    await session.exchange(0, frame(32), 0)
    // A header of 40 bytes and 32 rows of 64 halves, in 1.05 s of which the bridge took 0.05 s.
    expect(session.rates.upBytesPerS).toBeCloseTo(40 + 32 * 64 * 2, 0)
  })

  it('include the round trip of a ping, in seconds', async () => {
    await using bridge = await strangeBridge(replyWithTimes)
    const session = await linkTo(bridge.url).open(testModelId, never)
    await expect.poll(() => session.rates.rttS).toBeGreaterThan(0)
    expect(session.rates.rttS).toBeLessThan(2)
  })

  it('are sent to the bridge: upload rate and prefill speed', async () => {
    await using bridge = await strangeBridge(replyWithTimes)
    const speed = new DeviceSpeed()
    const session = await linkTo(bridge.url, { speed }).open(testModelId, never)
    await session.exchange(0, frame(32), 0)
    speed.recordPrefill(20, 4)
    const { upBytesPerS } = session.rates
    await session.exchange(32, frame(1), 0)
    expect(bridge.received.filter(({ type }) => type === 'rates')).toEqual([{ type: 'rates', upBytesPerS, prefillTokensPerS: 5 }])
  })

  it.each([
    ['reaches a bridge that accepts it', true, [{ type: 'reading', tokensPerS: 5, undelivered: 3 }]],
    ['is not sent to an older bridge, which would close the connection', undefined, []],
  ])('a report of the reader %s', async (_, reading, expected) => {
    await using bridge = await strangeBridge(replyWithTimes, { reading })
    const session = await linkTo(bridge.url).open(testModelId, never)
    session.report(5, 3)
    await session.exchange(0, frame(1), 0)
    expect(bridge.received.filter(({ type }) => type === 'reading')).toMatchObject(expected)
  })
})

describe('a misbehaving bridge', () => {
  it('has its replies of an earlier epoch, another session or an unknown seq dropped', async () => {
    await using bridge = await strangeBridge((frame, send) => {
      const { session, epoch, seq } = frame
      send(encodeFrame({ type: 'deep', session, epoch: epoch - 1, seq }, rowsOf([[9, 9]])))
      send(encodeFault({ session, epoch: epoch - 1, seq }, { code: 'LINK_LOST', message: 'of an earlier epoch' }))
      send(encodeFrame({ type: 'deep', session: session + 1n, epoch, seq }, rowsOf([[9, 9]])))
      send(encodeFrame({ type: 'deep', session, epoch, seq: seq + 7 }, rowsOf([[9, 9]])))
      send(encodeFrame({ type: 'deep', session, epoch, seq }, rowsOf([[1, 2]])))
    })
    const session = await linkTo(bridge.url).open(testModelId, never)
    expect(await deepOf(session, 0, rowsOf([[1, 2]]), 1)).toEqual(rowsOf([[1, 2]]))
  })

  it('has each reply taken once and matched to its request, in any order', async () => {
    const held: (() => void)[] = []
    await using bridge = await strangeBridge(({ session, epoch, seq, base }, send) => {
      const reply = encodeFrame({ type: 'deep', session, epoch, seq }, rowsOf([[base, base]]))
      held.unshift(() => {
        send(reply)
        send(reply)
      })
      if (held.length === 3) for (const answer of held.splice(0)) answer()
    })
    const session = await linkTo(bridge.url).open(testModelId, never)
    for (const bases of [
      [1, 2, 3],
      [4, 5, 6],
    ]) {
      const replies = await Promise.all(bases.map((base) => deepOf(session, base, rowsOf([[0, 0]]), 1)))
      expect(replies).toEqual(bases.map((base) => rowsOf([[base, base]])))
    }
  })

  it('loses the connection by sending a frame beyond the limit; the next connection works', async () => {
    await using bridge = await strangeBridge(({ session, epoch, seq, base }, send) => {
      send(base === 0 ? new Uint8Array(maxFrameBytes + 1) : encodeFrame({ type: 'deep', session, epoch, seq }, rowsOf([[1, 2]])))
    })
    const link = linkTo(bridge.url)
    const session = await link.open(testModelId, never)
    await expect(session.exchange(0, rowsOf([[1, 2]]), 1)).rejects.toMatchObject({ code: 'LINK_LOST' })
    const next = await link.open(testModelId, never)
    expect(await deepOf(next, 1, rowsOf([[1, 2]]), 1)).toEqual(rowsOf([[1, 2]]))
  })

  it('ends one session by sending a malformed frame for it', async () => {
    await using bridge = await strangeBridge((frame, send) => {
      const good = encodeFrame({ type: 'deep', session: frame.session, epoch: frame.epoch, seq: frame.seq }, rowsOf([[1, 2]]))
      if (frame.base === 0) return send(good)
      good[1] = 99
      send(good)
    })
    const link = linkTo(bridge.url)
    const [one, two] = await Promise.all([link.open(testModelId, never), link.open(testModelId, never)])
    await expect(one.exchange(1, rowsOf([[1, 2]]), 1)).rejects.toMatchObject({ code: 'FRAME_INVALID' })
    expect(await deepOf(two, 0, rowsOf([[1, 2]]), 1)).toEqual(rowsOf([[1, 2]]))
    await expect.poll(() => bridge.closed).toHaveLength(1)
  })

  it('has an error code of a newer release kept in the message', async () => {
    await using bridge = await strangeBridge((frame, send) =>
      send(encodeFault(frame, { code: 'QUOTA_SPENT', message: 'no more today' })),
    )
    const session = await linkTo(bridge.url).open(testModelId, never)
    await expect(session.exchange(0, rowsOf([[1, 2]]), 1)).rejects.toThrow(/QUOTA_SPENT/)
  })

  it('times out if it does not welcome the device', async () => {
    await using bridge = await strangeBridge(() => {}, { welcome: false })
    const clock = fakeClock()
    const link = linkTo(bridge.url, { clock })
    const refused = expect(link.open(testModelId, never)).rejects.toMatchObject({ code: 'BRIDGE_UNREACHABLE' })
    await expect.poll(() => bridge.hellos).toBe(1)
    await clock.advance(3_000)
    await refused
    await clock.advance(10_000)
    // The link has given up and connects again.
    await expect.poll(() => bridge.hellos).toBe(2)
  })

  it('is given up within seconds if it does not respond while it owes a reply', async () => {
    await using bridge = await strangeBridge(() => {}, { autoPong: false })
    const clock = fakeClock()
    const link = linkTo(bridge.url, { clock })
    const session = await link.open(testModelId, never)
    const lost = expect(session.exchange(0, rowsOf([[1, 2]]), 1)).rejects.toMatchObject({
      code: 'LINK_LOST',
      message: expect.stringContaining('does not respond'),
    })
    let ended = false
    void lost.finally(() => {
      ended = true
    })
    const fromMs = clock.nowMs()
    for (let turns = 0; !ended && turns < 10_000; turns++) {
      await clock.advance(10)
      await new Promise((turn) => setImmediate(turn))
    }
    await lost
    expect(clock.nowMs() - fromMs).toBeLessThan(5_000)
  })

  it('is given up after the heartbeat if it does not respond and owes nothing', async () => {
    await using bridge = await strangeBridge(() => {}, { autoPong: false })
    const clock = fakeClock()
    const link = linkTo(bridge.url, { clock })
    await link.open(testModelId, never)
    await clock.advance(20_000)
    await clock.advance(20_000)
    await expect.poll(() => link.connected).toBe(false)
  })

  it('is not given up while it answers pings', async () => {
    let reply: (() => void) | undefined
    await using bridge = await strangeBridge(({ session, epoch, seq }, send) => {
      reply = () => send(encodeFrame({ type: 'deep', session, epoch, seq }, rowsOf([[1, 2]])))
    })
    const clock = fakeClock()
    const session = await linkTo(bridge.url, { clock }).open(testModelId, never)
    const deep = deepOf(session, 0, rowsOf([[1, 2]]), 1)
    await expect.poll(() => reply).toBeDefined()
    // Each step of the clock is shorter than the time after which a silent bridge is given up.
    await expect
      .poll(async () => {
        await clock.advance(500)
        return bridge.pings
      })
      .toBeGreaterThan(3)
    reply?.()
    expect(await deep).toEqual(rowsOf([[1, 2]]))
  })

  it('is disconnected if it does not complete the close', async () => {
    await using bridge = await strangeBridge(() => {})
    const clock = fakeClock()
    const link = linkTo(bridge.url, { clock })
    await link.open(testModelId, never)
    bridge.stall()
    let isClosed = false
    void link.close().then(() => {
      isClosed = true
    })
    await clock.advance(1_000)
    await expect.poll(() => isClosed).toBe(true)
    expect(link.connected).toBe(false)
  })
})

interface StrangeBridge extends AsyncDisposable {
  /** Messages of the device. */
  readonly received: readonly ToBridge[]
  readonly url: string
  readonly closed: string[]
  readonly hellos: number
  readonly pings: number
  /** Stops reading. */
  stall(): void
}

/** A real WebSocket server whose replies to frames the test defines. */
interface StrangeOptions {
  readonly welcome?: boolean
  readonly autoPong?: boolean
  readonly opens?: boolean
  readonly reading?: boolean | undefined
}

async function strangeBridge(
  onRows: (frame: Frame, send: (bytes: Uint8Array) => void) => void,
  { welcome = true, autoPong = true, opens = true, reading }: StrangeOptions = {},
): Promise<StrangeBridge> {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0, autoPong })
  await once(server, 'listening')
  const closed: string[] = []
  const received: ToBridge[] = []
  let sessions = 0
  let hellos = 0
  let pings = 0
  server.on('connection', (socket: WebSocket) => {
    const send = (message: ToDevice) => socket.send(JSON.stringify(message))
    socket.on('ping', () => {
      pings += 1
    })
    socket.on('message', (data: Buffer, isBinary) => {
      if (isBinary) return onRows(decodeFrame(data), (bytes) => socket.send(bytes))
      const message = ToBridge.parse(JSON.parse(data.toString()))
      received.push(message)
      if (message.type === 'hello') hellos += 1
      if (message.type === 'hello' && welcome) send({ type: 'welcome', v: 1, bridge: 'strange', modelId: testModelId })
      if (message.type === 'open' && opens) {
        sessions += 1
        const session = sessions.toString(16).padStart(16, '0')
        send({
          type: 'opened',
          request: message.request,
          session,
          epoch: 5,
          held: 0,
          moved: false,
          chunkTokens: 8,
          frameTokens: 64,
          draftLimit: 2,
          reading,
        })
      }
      if (message.type === 'close') closed.push(message.session)
    })
  })
  return {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    closed,
    received,
    get hellos() {
      return hellos
    },
    get pings() {
      return pings
    },
    stall() {
      for (const client of server.clients) client.pause()
    },
    async [Symbol.asyncDispose]() {
      for (const client of server.clients) client.terminate()
      await new Promise((done) => server.close(done))
    },
  }
}
