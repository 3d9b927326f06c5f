import { once } from 'node:events'
import { connect } from 'node:net'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import type { Sessions } from '../../../cloud-bridge/hat/sessions.ts'
import { encodeFrame, headerBytes, maxFrameBytes } from '../../../core/wire/protocol/frame.ts'
import { closeCodes } from '../../../core/wire/protocol/messages.ts'
import { maxProbeBytes } from '../../../core/wire/protocol/probe.ts'
import type { States } from '../../../core/wire/protocol/states.ts'
import { startDataPlane, testModelId } from '../../support/data-plane.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { scriptedPart } from '../../support/scripted-part.ts'
import { connectDevice } from '../../support/test-device.ts'

/** `n` different rows. */
const rows = (n: number, first = 0): States => ({
  rows: n,
  width: 2,
  half: Uint16Array.from({ length: n * 2 }, (_, i) => first + i + 1),
})
const halves = (states: States) => [...states.half]

describe('hello', () => {
  it('is answered with the name of the bridge and its model', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    await expect
      .poll(() => device.messages)
      .toEqual([
        { type: 'welcome', v: 1, bridge: 'bridge-1', modelId: testModelId, probeBytes: maxProbeBytes, early: true, codings: [] },
      ])
  })

  it('of a newer protocol version is refused with PROTOCOL_VERSION', async () => {
    await using plane = await startDataPlane(scriptedPart())
    const { messages, closed } = await rawSocket(plane.dataUrl, JSON.stringify({ type: 'hello', v: 2, device: 'a', birth: 1 }))
    expect(await closed).toEqual({ code: closeCodes.version, reason: 'PROTOCOL_VERSION' })
    expect(messages).toMatchObject([{ type: 'refused', request: 0, code: 'PROTOCOL_VERSION' }])
  })

  it.each([
    ['text that is not JSON', 'hello?', 'not JSON'],
    ['an unknown message', '{"type":"dance"}', '"type": has none of the allowed forms'],
    ['an open before hello', JSON.stringify({ type: 'open', request: 1, modelId: testModelId }), 'hello must be the first'],
    [
      'a message that is too long',
      JSON.stringify({ type: 'hello', v: 1, device: 'a', birth: 1, more: 'x'.repeat(5_000) }),
      '4096 bytes',
    ],
    ['a device id with a slash', '{"type":"hello","v":1,"device":"a/b","birth":1}', '"device": must be lower-case'],
    ['a frame before hello', encodeFrame({ type: 'rows', session: 1n, epoch: 1, seq: 1 }), 'hello must be the first'],
  ])('is refused with a reason when it is %s, and the connection closes with a code', async (_, message, why) => {
    await using plane = await startDataPlane(scriptedPart())
    const { closed, messages } = await rawSocket(plane.dataUrl, message)
    expect(await closed).toEqual({ code: closeCodes.invalid, reason: 'REQUEST_INVALID' })
    expect(messages).toMatchObject([{ type: 'refused', request: 0, message: expect.stringContaining(why) }])
  })

  it('that does not arrive in time closes the connection', async () => {
    const clock = fakeClock()
    await using plane = await startDataPlane(scriptedPart(), { clock })
    const { closed, socket } = await rawSocket(plane.dataUrl)
    await expect.poll(() => socket.readyState).toBe(WebSocket.OPEN)
    await clock.advance(10_000)
    expect(await closed).toEqual({ code: closeCodes.silent, reason: 'REQUEST_INVALID' })
  })

  it('of a device that is already connected closes its old connection and ends the sessions there', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using before = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    await before.open(testModelId)
    await using now = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    expect(await before.closed).toEqual({ code: closeCodes.replaced, reason: 'LINK_LOST' })
    expect(plane.sessions.count).toBe(0)
    const session = await now.open(testModelId)
    expect(halves(await now.rows(session, { base: 0, states: rows(2) }))).toEqual([1, 2, 3, 4])
  })
})

describe('a session', () => {
  it('for another bundle is refused with both names and the remedy', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const other = 'cd'.repeat(32)
    await expect(device.open(other)).rejects.toMatchObject({
      code: 'BUNDLE_MISMATCH',
      message: expect.stringMatching(new RegExp(`${other}.*${testModelId}.*bundle`)),
    })
  })

  it('whose id the device has chosen takes frames that were sent with open, and closes as others do', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const session = device.openEarly(testModelId, 77n)
    const seqs = [0, 2, 4].map((base) => device.send(session, { base, states: rows(2, 2 * base) }))
    const replies = await Promise.all(seqs.map((seq) => device.reply(session, seq)))
    expect(replies.map(({ type, base, epoch }) => [type, base, epoch])).toEqual([0, 2, 4].map((base) => ['deep', base, 0]))
    expect(device.messages).toContainEqual(
      expect.objectContaining({ type: 'opened', request: session.request, session: session.hex, epoch: 0, held: 0 }),
    )
    device.openEarly(testModelId, 78n)
    device.sendMessage({ type: 'close', session: 78n.toString(16).padStart(16, '0') })
    device.sendMessage({ type: 'close', session: session.hex })
    await expect.poll(() => plane.sessions.count).toBe(0)
    await device.flushed()
    expect(plane.kvBytes()).toBe(0)
  })

  it('passes on the rate and the unread tokens that a device reports of its reader', async () => {
    await using plane = await startDataPlane(scriptedPart())
    const reports: object[] = []
    const report: Sessions['report'] = ({ device }, _session, tokensPerS, undelivered) =>
      void reports.push({ device, tokensPerS, undelivered })
    Object.assign(plane.sessions, { report })
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const { hex } = await device.open(testModelId)
    device.sendMessage({ type: 'reading', session: hex, tokensPerS: 8, undelivered: 6 })
    await expect.poll(() => reports).toEqual([{ device: 'jetson-01', tokensPerS: 8, undelivered: 6 }])
  })

  it('that is refused drops the frames that were sent with open', async () => {
    const part = scriptedPart()
    await using plane = await startDataPlane(part)
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const session = device.openEarly('cd'.repeat(32), 77n)
    const early = device.send(session, { base: 0, states: rows(2) })
    await device.flushed()
    expect(device.messages.at(-1)).toMatchObject({ type: 'refused', request: session.request, code: 'BUNDLE_MISMATCH' })
    expect(part.steps).toEqual([])
    expect(device.frames.filter(({ type, seq }) => type === 'deep' || seq !== early)).toEqual([])
  })

  it('of an id that is taken is refused, to the same device and to others, who cannot use it', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    await using thief = await connectDevice(plane.dataUrl, 'jetson-02', 2)
    const own = device.openEarly(testModelId, 77n)
    const twice = device.openEarly(testModelId, 77n)
    await device.flushed()
    const stolen = thief.openEarly(testModelId, 77n)
    const seq = thief.send(stolen, { base: 0, states: rows(2) })
    await thief.flushed()
    for (const [messages, { request }] of [
      [device.messages, twice],
      [thief.messages, stolen],
    ] as const)
      expect(messages).toContainEqual(expect.objectContaining({ type: 'refused', request, code: 'SESSION_REFUSED' }))
    expect((await thief.reply(stolen, seq)).type).toBe('fault')
    expect(halves(await device.rows(own, { base: 0, states: rows(2) }))).toEqual([1, 2, 3, 4])
  })

  it('opens with the terms of the bridge', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const { hex } = await device.open(testModelId)
    const terms = { epoch: 1, held: 0, moved: false, chunkTokens: 16, frameTokens: 64, draftLimit: 4, reading: true }
    expect(device.messages.at(-1)).toEqual({ type: 'opened', request: 1, session: hex, ...terms })
  })

  it('answers frames in order when the device does not wait for replies', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const session = await device.open(testModelId)
    const seqs = [0, 1, 2, 3].map((i) => device.send(session, { base: 3 * i, states: rows(3, 10 * i), want: i === 3 ? 1 : 0 }))
    const last = await device.reply(session, seqs[3]!)
    expect(last).toMatchObject({ type: 'deep', base: 11, n: 1 })
    expect(device.frames.map(({ type, seq, n }) => [type, seq, n])).toEqual([
      ['deep', 1, 0],
      ['deep', 2, 0],
      ['deep', 3, 0],
      ['deep', 4, 1],
    ])
  })

  it('answers a frame that leaves a gap, and accepts the missing rows and the same seq afterwards', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const session = await device.open(testModelId)
    device.send(session, { base: 4, states: rows(1), seq: 2 })
    expect(await device.reply(session, 2)).toMatchObject({ type: 'gap', base: 0 })
    await device.rows(session, { base: 0, states: rows(4), seq: 1 })
    device.send(session, { base: 4, states: rows(1, 50), seq: 2 })
    await expect.poll(() => device.frames.at(-1)).toMatchObject({ type: 'deep', seq: 2, base: 4, n: 1 })
  })

  it('answers a repeated frame from its cache, without computing it again', async () => {
    const part = scriptedPart()
    await using plane = await startDataPlane(part)
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const session = await device.open(testModelId)
    const first = await device.rows(session, { base: 0, states: rows(2), seq: 1 })
    device.send(session, { base: 0, states: rows(2), seq: 1 })
    await expect.poll(() => device.frames.length).toBe(2)
    expect(device.frames[1]).toEqual(device.frames[0])
    expect(halves(first)).toEqual([1, 2, 3, 4])
    expect(part.steps.length).toBe(1)
  })

  it.each([
    { what: 'of a tree that was not sent', first: [], kept: [0, 1], base: 4 },
    { what: 'that the tree does not have', first: [-1, 0, 0], kept: [0, 3], base: 4 },
    { what: 'that do not end where the frame begins', first: [-1, 0, 0], kept: [0, 2], base: 5 },
  ])('ends when a frame keeps rows $what', async ({ first, kept, base }) => {
    await using plane = await startDataPlane(scriptedPart())
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const session = await device.open(testModelId)
    await device.rows(session, { base: 0, states: rows(2) })
    await device.rows(session, { base: 2, states: rows(3), tree: { kept: [], parents: first } })
    device.send(session, { base, states: rows(1), tree: { kept, parents: [] } })
    expect(await device.fault(session)).toMatchObject({ code: 'FRAME_INVALID', message: expect.stringContaining('of a tree') })
    const other = await device.open(testModelId)
    expect(halves(await device.rows(other, { base: 0, states: rows(2) }))).toEqual([1, 2, 3, 4])
  })

  it('ends when a frame is repeated whose reply is no longer cached', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const session = await device.open(testModelId)
    for (let seq = 1; seq <= 20; seq++) await device.rows(session, { base: seq - 1, states: rows(1), seq })
    device.send(session, { base: 0, states: rows(1), seq: 1 })
    expect(await device.fault(session)).toMatchObject({ code: 'FRAME_INVALID' })
    expect(plane.sessions.count).toBe(0)
  })

  it.each([
    ['NaN', 0x7e00],
    ['infinity', 0xfc00],
  ])('ends with the number of the row when a row holds %s', async (_, bits) => {
    await using plane = await startDataPlane(scriptedPart())
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const session = await device.open(testModelId)
    device.send(session, { base: 0, states: { rows: 2, width: 2, half: Uint16Array.of(0, 0, 0, bits) } })
    expect(await device.fault(session)).toMatchObject({ code: 'FRAME_INVALID', message: expect.stringContaining('row 1') })
  })

  it('ends at the context limit with CONTEXT_OVERFLOW', async () => {
    await using plane = await startDataPlane(scriptedPart(), { contextLimit: 8 })
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const session = await device.open(testModelId)
    await device.rows(session, { base: 0, states: rows(8) })
    device.send(session, { base: 8, states: rows(1) })
    expect(await device.fault(session)).toMatchObject({ code: 'CONTEXT_OVERFLOW' })
  })

  it('that fails in the engine ends; others continue', async () => {
    const part = scriptedPart()
    await using plane = await startDataPlane(part)
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const [good, bad] = [await device.open(testModelId), await device.open(testModelId)]
    await device.rows(bad, { base: 0, states: rows(1) })
    part.failFor(part.steps[0]![0]!.sequence)
    device.send(bad, { base: 1, states: rows(1) })
    const goodRows = await device.rows(good, { base: 0, states: rows(1) })
    expect(halves(goodRows)).toEqual([1, 2])
    expect(await device.fault(bad)).toMatchObject({ code: 'RUNTIME_FAILED' })
    expect(plane.sessions.count).toBe(1)
  })

  it('whose deep rows are NaN ends with the name of the part; the bridge continues', async () => {
    const part = scriptedPart()
    await using plane = await startDataPlane(part)
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const session = await device.open(testModelId)
    await device.rows(session, { base: 0, states: rows(1) })
    part.poison(part.steps[0]![0]!.sequence)
    device.send(session, { base: 1, states: rows(2) })
    expect(await device.fault(session)).toMatchObject({ code: 'RUNTIME_FAILED', message: expect.stringContaining('middle part') })
    await device.rows(await device.open(testModelId), { base: 0, states: rows(1) })
  })

  it('whose deep rows are NaN leaves the others of its packed step unchanged', async () => {
    const part = scriptedPart({ manual: true })
    await using plane = await startDataPlane(part)
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    await using neighbour = await connectDevice(plane.dataUrl, 'jetson-02', 2)
    const [bad, good, other] = [await device.open(testModelId), await device.open(testModelId), await neighbour.open(testModelId)]
    const first = device.rows(bad, { base: 0, states: rows(1) })
    await part.finishStep()
    await first
    part.poison(part.steps[0]![0]!.sequence)
    // While this step runs, the rows of the next one arrive.
    const before = device.rows(good, { base: 0, states: rows(1) })
    await expect.poll(() => part.steps.length).toBe(2)
    device.send(bad, { base: 1, states: rows(1) })
    const underWay = [
      device.rows(good, { base: 1, states: rows(1, 10) }),
      neighbour.rows(other, { base: 0, states: rows(1, 20) }),
    ]
    await neighbour.flushed()
    await device.flushed()
    await part.finishStep()
    await before
    await part.finishStep()
    expect((await Promise.all(underWay)).map(halves)).toEqual([
      [11, 12],
      [21, 22],
    ])
    expect(part.steps.at(-1)).toHaveLength(3)
    expect(await device.fault(bad)).toMatchObject({ code: 'RUNTIME_FAILED', message: expect.stringContaining('middle') })
    expect(plane.sessions.count).toBe(2)
  })

  it('answers each copy of a frame that was repeated before its reply', async () => {
    const part = scriptedPart({ manual: true })
    await using plane = await startDataPlane(part)
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const session = await device.open(testModelId)
    for (let i = 0; i < 3; i++) device.send(session, { base: 0, states: rows(2), seq: 1 })
    await part.finishStep()
    await expect.poll(() => device.frames.length).toBe(3)
    expect(device.frames[1]).toEqual(device.frames[0])
    expect(device.frames[2]).toEqual(device.frames[0])
    expect(part.steps.length).toBe(1)
  })

  it('ends with the limit when a frame has too many rows', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const session = await device.open(testModelId)
    device.send(session, { base: 0, states: rows(65) })
    expect(await device.fault(session)).toMatchObject({ code: 'FRAME_INVALID', message: expect.stringContaining('limit is 64') })
    expect(plane.sessions.count).toBe(0)
    expect(plane.kvBytes()).toBe(0)
  })

  it('that was never opened is unknown', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const session = await device.open(testModelId)
    const unknown = { ...session, id: session.id ^ 1n }
    device.send(unknown, { base: 0, states: rows(1) })
    expect(await device.fault(unknown)).toMatchObject({ code: 'SESSION_UNKNOWN' })
    expect(halves(await device.rows(session, { base: 0, states: rows(1) }))).toEqual([1, 2])
    expect(plane.sessions.count).toBe(1)
  })

  it('expires when it is idle, and not while it is used', async () => {
    const clock = fakeClock()
    await using plane = await startDataPlane(scriptedPart(), { clock })
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const [idle, busy] = [await device.open(testModelId), await device.open(testModelId)]
    await clock.advance(10_000)
    device.socket.pong()
    await device.rows(busy, { base: 0, states: rows(1) })
    // In steps shorter than the heartbeat, so that the connection stays open.
    for (let i = 0; i < 11; i++) {
      await clock.advance(10_000)
      await device.rows(busy, { base: 0, states: rows(1) })
    }
    expect(await device.fault(idle)).toMatchObject({ code: 'SESSION_UNKNOWN', message: 'idle for 120 s' })
    expect(plane.sessions.count).toBe(1)
    await device.rows(busy, { base: 1, states: rows(1) })
  })

  it('is refused beyond the limit when many are requested at once', async () => {
    await using plane = await startDataPlane(scriptedPart(), { sessionsPerDevice: 2 })
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    for (let request = 1; request <= 10; request++) device.sendMessage({ type: 'open', request, modelId: testModelId })
    const answers = () => device.messages.map(({ type }) => type).filter((type) => type === 'opened' || type === 'refused')
    await expect.poll(answers).toHaveLength(10)
    expect(answers().filter((type) => type === 'opened')).toHaveLength(2)
    expect(plane.sessions.count).toBe(2)
  })

  it('is unknown to other connections and under other epochs', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using owner = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    await using thief = await connectDevice(plane.dataUrl, 'jetson-02', 2)
    const session = await owner.open(testModelId)
    thief.send(session, { base: 0, states: rows(1) })
    expect(await thief.fault(session)).toMatchObject({ code: 'SESSION_UNKNOWN' })
    thief.sendMessage({ type: 'close', session: session.hex })
    owner.send({ ...session, epoch: session.epoch + 1 }, { base: 0, states: rows(1) })
    expect(await owner.fault(session)).toMatchObject({ code: 'SESSION_UNKNOWN' })
    expect(halves(await owner.rows(session, { base: 0, states: rows(1) }))).toEqual([1, 2])
  })

  it('is refused with a retry delay beyond the limits of the connection and of KV memory', async () => {
    const part = scriptedPart()
    const perSession = 16 * 2 * 16 * 4
    await using plane = await startDataPlane(part, { sessionsPerDevice: 2, budgetBytes: 3 * perSession })
    await using a = await connectDevice(plane.dataUrl, 'a', 2)
    await using b = await connectDevice(plane.dataUrl, 'b', 2)
    const first = await a.open(testModelId)
    await a.open(testModelId)
    await expect(a.open(testModelId)).rejects.toMatchObject({ code: 'SESSION_REFUSED', retryAfterMs: 1_000 })
    await b.open(testModelId)
    await expect(b.open(testModelId)).rejects.toMatchObject({ code: 'SESSION_REFUSED', message: expect.stringContaining('KV') })
    a.sendMessage({ type: 'close', session: first.hex })
    await b.open(testModelId)
    expect(plane.kvBytes()).toBe(3 * perSession)
  })

  it('whose device disconnects during a prefill stops within one step and releases its KV', async () => {
    const part = scriptedPart({ manual: true })
    await using plane = await startDataPlane(part)
    const device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const session = await device.open(testModelId)
    for (let i = 0; i < 4; i++) device.send(session, { base: 16 * i, states: rows(16), want: 0 })
    await expect.poll(() => part.steps.length).toBe(1)
    await device[Symbol.asyncDispose]()
    await expect.poll(() => plane.sessions.count).toBe(0)
    expect(plane.kvBytes()).toBeGreaterThan(0)
    await part.finishStep()
    await expect.poll(() => plane.kvBytes()).toBe(0)
    expect(part.steps.length).toBe(1)
  })
})

describe('a malformed frame', () => {
  const good = (session: { id: bigint; epoch: number }) =>
    encodeFrame({ type: 'rows', session: session.id, epoch: session.epoch, seq: 1, base: 0, want: 1 }, rows(2))

  it.each<[string, (bytes: Uint8Array) => Uint8Array, string]>([
    ['cut off', (bytes) => bytes.subarray(0, bytes.length - 1), 'FRAME_INVALID'],
    ['of an unknown type', (bytes) => bytes.fill(99, 1, 2), 'FRAME_INVALID'],
    ['of another version', (bytes) => bytes.fill(2, 0, 1), 'PROTOCOL_VERSION'],
    ['with more rows than bytes', (bytes) => bytes.fill(0xff, 24, 28), 'FRAME_INVALID'],
    ['with unknown flags', (bytes) => bytes.fill(0xf0, 3, 4), 'FRAME_INVALID'],
  ])('%s ends its session with a code, and no other session', async (_, damage, code) => {
    await using plane = await startDataPlane(scriptedPart())
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const [bad, other] = [await device.open(testModelId), await device.open(testModelId)]
    device.socket.send(damage(good(bad)))
    expect(await device.fault(bad)).toMatchObject({ code })
    expect(halves(await device.rows(other, { base: 0, states: rows(1) }))).toEqual([1, 2])
    expect(plane.sessions.count).toBe(1)
    // KV of one scripted sequence, and the cached reply.
    expect(plane.kvBytes()).toBe(64 * 2 * 16 * 4 + headerBytes + 4)
  })

  it('too short to name a session ends none', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const session = await device.open(testModelId)
    device.socket.send(Uint8Array.of(1, 2, 3))
    expect(await device.fault({ id: 0n })).toMatchObject({ code: 'FRAME_INVALID' })
    await device.rows(session, { base: 0, states: rows(1) })
  })

  it('of random bytes affects neither the bridge nor other devices', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using good = await connectDevice(plane.dataUrl, 'good', 2)
    await using bad = await connectDevice(plane.dataUrl, 'bad', 2)
    const session = await good.open(testModelId)
    const noise = fc.sample(fc.uint8Array({ maxLength: 120 }), { numRuns: 300, seed: 7 })
    const target = await bad.open(testModelId)
    const mutated = fc.sample(fc.tuple(fc.nat({ max: 47 }), fc.nat({ max: 255 })), { numRuns: 300, seed: 8 })
    for (const bytes of noise) bad.socket.send(bytes)
    for (const [at, to] of mutated) {
      const bytes = encodeFrame({ type: 'rows', session: target.id, epoch: target.epoch, seq: 1, want: 1 }, rows(2))
      bytes[at] = to
      bad.socket.send(bytes)
    }
    expect(halves(await good.rows(session, { base: 0, states: rows(1) }))).toEqual([1, 2])
    await expect.poll(() => bad.frames.length).toBeGreaterThan(300)
    expect(bad.socket.readyState).toBe(WebSocket.OPEN)
  })

  it('above the size limit closes the connection with 1009', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    await device.open(testModelId)
    device.socket.send(new Uint8Array(maxFrameBytes + 1))
    expect((await device.closed).code).toBe(1009)
    await expect.poll(() => plane.sessions.count).toBe(0)
  })
})

describe('a connection', () => {
  it('that is reopened at once does not stop the bridge from closing', async () => {
    const plane = await startDataPlane(scriptedPart())
    await using slow = await connectDevice(plane.dataUrl, 'slow', 2)
    const quick = await connectDevice(plane.dataUrl, 'quick', 2)
    // Does not answer the close, so that the bridge waits for its timeout.
    slow.socket.pause()
    const reopened = quick.closed.then(() => connectDevice(plane.dataUrl, 'quick', 2))
    const refused = expect(reopened).rejects.toThrow(/503|ECONNREFUSED/)
    await plane[Symbol.asyncDispose]()
    await refused
    slow.socket.resume()
  })

  it('whose device stops reading is paused, and others are served', async () => {
    const wide = 4_096
    await using plane = await startDataPlane(scriptedPart(), { width: wide })
    await using stalled = await connectDevice(plane.dataUrl, 'stalled', wide)
    await using lively = await connectDevice(plane.dataUrl, 'lively', wide)
    const block: States = { rows: 64, width: wide, half: new Uint16Array(64 * wide).fill(0x3c00) }
    const session = await stalled.open(testModelId)
    stalled.socket.pause()
    // Half a megabyte each way per frame: far more than the buffers of the connection hold.
    for (let i = 0; i < 160; i++) stalled.send(session, { base: 0, states: block })
    await expect.poll(() => stalled.socket.bufferedAmount).toBeGreaterThan(0)
    const other = await lively.open(testModelId)
    for (let i = 0; i < 20; i++) await lively.rows(other, { base: i, states: { ...block, rows: 1 } })
    expect(stalled.socket.bufferedAmount).toBeGreaterThan(0)
    stalled.socket.resume()
    await expect.poll(() => stalled.frames.length).toBe(160)
  })

  it('whose device sends requests without reading the responses is paused', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using silent = await connectDevice(plane.dataUrl, 'silent', 2)
    let handled = 0
    plane.sessions.open = async () => {
      handled += 1
      return { kind: 'refused', code: 'SESSION_REFUSED', message: 'x'.repeat(4_000), retryAfterMs: 1_000 }
    }
    silent.socket.pause()
    // The responses have about 40 MB: more than the buffers of the connection hold.
    const requests = 10_000
    for (let request = 1; request <= requests; request++) silent.sendMessage({ type: 'open', request, modelId: testModelId })
    const seen: number[] = []
    const hasStopped = () => {
      seen.push(handled)
      return handled > 0 && seen.length >= 4 && new Set(seen.slice(-4)).size === 1
    }
    await expect.poll(hasStopped, { interval: 250, timeout: 20_000 }).toBe(true)
    expect(handled).toBeLessThan(requests)
    silent.socket.resume()
    await expect.poll(() => silent.messages.length).toBe(requests + 1)
  })

  it('whose device never reads again is closed although it still sends, and its KV is released', async () => {
    const clock = fakeClock()
    const wide = 4_096
    await using plane = await startDataPlane(scriptedPart(), { clock, width: wide })
    await using silent = await connectDevice(plane.dataUrl, 'silent', wide)
    const block: States = { rows: 64, width: wide, half: new Uint16Array(64 * wide).fill(0x3c00) }
    const session = await silent.open(testModelId)
    silent.socket.pause()
    // Half a megabyte each way per frame, until the bridge stops reading.
    for (let i = 0; i < 160; i++) silent.send(session, { base: 0, states: block })
    await expect.poll(() => silent.socket.bufferedAmount).toBeGreaterThan(0)
    for (let heartbeats = 0; plane.sessions.count > 0 && heartbeats < 200; heartbeats++) {
      await clock.advance(15_000)
      await new Promise((turn) => setImmediate(turn))
    }
    expect(plane.sessions.count).toBe(0)
    await expect.poll(() => plane.kvBytes()).toBe(0)
  })

  it('that fails with an internal error is closed, and others are not', async () => {
    const part = scriptedPart()
    let fails = false
    const createSequence: typeof part.createSequence = (...of) => {
      if (fails) throw new RangeError('Array buffer allocation failed')
      return part.createSequence(...of)
    }
    await using plane = await startDataPlane({ ...part, createSequence })
    await using other = await connectDevice(plane.dataUrl, 'other', 2)
    await using device = await connectDevice(plane.dataUrl, 'unlucky', 2)
    fails = true
    device.sendMessage({ type: 'open', request: 1, modelId: testModelId })
    expect(await device.closed).toMatchObject({ code: 1001 })
    fails = false
    await other.open(testModelId)
    expect(plane.sessions.count).toBe(1)
  })

  it('has the round trip of its last heartbeat', async () => {
    const clock = fakeClock()
    await using plane = await startDataPlane(scriptedPart(), { clock })
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    await device.open(testModelId)
    const roundTrips = () => plane.sessions.list().map(({ rttMs }) => rttMs)
    expect(roundTrips()).toEqual([null])
    await clock.advance(15_000)
    await expect.poll(roundTrips).toEqual([0])
  })

  it('that does not answer a heartbeat is closed, and its sessions end', async () => {
    const clock = fakeClock()
    await using plane = await startDataPlane(scriptedPart(), { clock })
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    await device.open(testModelId)
    // As on a broken link: the device reads nothing and so sends no pong.
    device.socket.pause()
    await clock.advance(15_000)
    expect(plane.sessions.count).toBe(1)
    await clock.advance(15_000)
    await expect.poll(() => plane.sessions.count).toBe(0)
    device.socket.resume()
    expect((await device.closed).code).toBe(1006)
  })

  it('from a web page is refused', async () => {
    await using plane = await startDataPlane(scriptedPart())
    const page = new WebSocket(plane.dataUrl, { origin: 'https://example.org' })
    await expect(once(page, 'open')).rejects.toThrow('403')
    const rebound = new WebSocket(plane.dataUrl, { headers: { host: 'example.org' } })
    await expect(once(rebound, 'open')).rejects.toThrow('403')
    const elsewhere = new WebSocket(plane.dataUrl.replace('/v1/data', '/v2/data'))
    await expect(once(elsewhere, 'open')).rejects.toThrow('404')
  })

  it('that the bridge does not read stays open without heartbeats', async () => {
    const clock = fakeClock()
    const wide = 4_096
    const part = scriptedPart({ manual: true })
    await using plane = await startDataPlane(part, { clock, width: wide })
    await using busy = await connectDevice(plane.dataUrl, 'busy', wide)
    const block: States = { rows: 64, width: wide, half: new Uint16Array(64 * wide).fill(0x3c00) }
    const session = await busy.open(testModelId)
    // The first frame is never computed; more are sent than the bridge reads ahead.
    for (let i = 0; i < 160; i++) busy.send(session, { base: 0, states: block })
    await expect.poll(() => part.steps.length).toBe(1)
    await expect.poll(() => busy.socket.bufferedAmount).toBeGreaterThan(0)
    for (let heartbeats = 0; heartbeats < 4; heartbeats++) await clock.advance(15_000)
    expect([plane.sessions.count, busy.socket.readyState]).toEqual([1, WebSocket.OPEN])
    await busy[Symbol.asyncDispose]()
    await part.finishStep()
  })

  it('that does not speak HTTP does not affect the bridge', async () => {
    await using plane = await startDataPlane(scriptedPart())
    const raw = connect(Number(new URL(plane.httpUrl).port), '127.0.0.1')
    raw.on('error', () => {})
    raw.resume()
    raw.end(Buffer.from([0x16, 0x03, 0x01, 0x00, 0xff]))
    await new Promise((resolve) => raw.once('close', resolve))
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    await device.open(testModelId)
    expect(plane.sessions.count).toBe(1)
  })
})

async function rawSocket(url: string, first?: string | Uint8Array) {
  const socket = new WebSocket(url)
  const messages: unknown[] = []
  socket.on('message', (data: Buffer) => messages.push(JSON.parse(data.toString())))
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    socket.once('close', (code, reason) => resolve({ code, reason: reason.toString() }))
  })
  await once(socket, 'open')
  if (first !== undefined) socket.send(first)
  return { socket, messages, closed }
}
