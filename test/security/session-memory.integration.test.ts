import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { encodeFrame, headerBytes, maxFrameBytes } from '../../core/wire/protocol/frame.ts'
import { hiddenStatesFlood } from '../../lab/attack/hidden-states.ts'
import { startDataPlane, testModelId } from '../support/data-plane.ts'
import { scriptedPart } from '../support/scripted-part.ts'
import { connectDevice, type OpenSession } from '../support/test-device.ts'

const width = 2
const rows = (n: number) => ({ rows: n, width, half: new Uint16Array(n * width).fill(0x3c00) })
/** KV of a session of up to 64 positions of the scripted part. */
const perSession = 64 * 2 * 16 * 4

/** A frame of one row that claims to be as long as so many. */
const padded = ({ id, epoch }: OpenSession, seq: number, paddedRows: number) =>
  encodeFrame({ type: 'rows', session: id, epoch, seq, base: seq - 1, want: 1 }, rows(1), { paddedRows })

describe('a device that pads its frames', () => {
  it('beyond what a frame may have loses its session; beyond a verification, it is not answered with as many bytes', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', width)
    const [honest, hostile] = [await device.open(testModelId), await device.open(testModelId)]
    // The draft limit is 4: a verification has 5 rows.
    device.socket.send(padded(honest, 1, 5))
    expect((await device.reply(honest, 1)).payload.byteLength).toBe(5 * 4)
    // A frame of a prompt may be as long as 64 rows.
    device.socket.send(padded(honest, 2, 64))
    expect((await device.reply(honest, 2)).payload.byteLength).toBe(5 * 4)
    device.socket.send(padded(hostile, 1, 65))
    expect(await device.fault(hostile)).toMatchObject({ code: 'FRAME_INVALID', message: expect.stringContaining('padded') })
    expect(plane.sessions.count).toBe(1)
  })

  it('beyond what a frame of this model can have is disconnected before the bridge has read it', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', width)
    const session = await device.open(testModelId)
    device.socket.send(padded(session, 1, (maxFrameBytes - headerBytes) / (2 * width) - 1))
    expect((await device.closed).code).toBe(1009)
  })
})

describe('the cached replies of a session', () => {
  it('are charged to the KV budget until it ends', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', width)
    const session = await device.open(testModelId)
    for (let frame = 0; frame < 12; frame++) await device.rows(session, { base: 0, states: rows(50) })
    expect(plane.kvBytes()).toBe(perSession + 8 * (headerBytes + 50 * 4))
    device.sendMessage({ type: 'close', session: session.hex })
    await expect.poll(() => plane.kvBytes()).toBe(0)
  })

  it('are dropped rather than cached where the budget is exhausted; the session goes on', async () => {
    await using plane = await startDataPlane(scriptedPart(), { budgetBytes: perSession + 100 })
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', width)
    const session = await device.open(testModelId)
    for (let frame = 0; frame < 12; frame++) await device.rows(session, { base: 0, states: rows(50) })
    expect(plane.kvBytes()).toBeLessThanOrEqual(perSession + 100)
  })

  it('are sent again a limited number of times; then the session ends', async () => {
    await using plane = await startDataPlane(scriptedPart(), { maxRepeats: 3 })
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', width)
    const session = await device.open(testModelId)
    await device.rows(session, { base: 0, states: rows(50) })
    for (let repeat = 0; repeat < 20; repeat++) device.send(session, { base: 0, states: rows(0), seq: 1 })
    expect(await device.fault(session)).toMatchObject({ code: 'FRAME_INVALID', message: expect.stringContaining('repeated') })
    expect(device.frames.filter(({ type }) => type === 'deep')).toHaveLength(1 + 3)
  })
})

describe('a device that fills the KV memory', () => {
  it('gets no more than its share, and another device still gets a session', async () => {
    const memory = { budgetBytes: 5 * perSession, ownerBytes: 3.1 * perSession }
    await using plane = await startDataPlane(scriptedPart(), memory)
    await using hostile = await connectDevice(plane.dataUrl, 'hostile', width)
    await using honest = await connectDevice(plane.dataUrl, 'honest', width)
    for (let session = 0; session < 3; session++)
      await hostile.rows(await hostile.open(testModelId), { base: 0, states: rows(1) })
    await expect(hostile.open(testModelId)).rejects.toMatchObject({
      code: 'SESSION_REFUSED',
      message: expect.stringContaining('deviceKvPercent'),
    })
    await honest.rows(await honest.open(testModelId), { base: 0, states: rows(1) })
  })

  it('evicts its own cached prefixes at its share, never those of others', async () => {
    const memory = { budgetBytes: 4 * perSession, ownerBytes: 2 * perSession, prefixMs: 60_000 }
    await using plane = await startDataPlane(scriptedPart(), memory)
    await using hostile = await connectDevice(plane.dataUrl, 'hostile', width)
    await using honest = await connectDevice(plane.dataUrl, 'honest', width)
    const handle = await keep(honest)
    for (let prefix = 0; prefix < 6; prefix++) await keep(hostile)
    expect((await honest.open(testModelId, { handle: handle!, length: 20 })).held).toBe(20)
  })

  /** Leaves a prefix of 20 positions in the cache. @returns its handle */
  async function keep(device: Awaited<ReturnType<typeof connectDevice>>): Promise<string | undefined> {
    const session = await device.open(testModelId)
    await device.rows(session, { base: 0, states: rows(20), want: 1 })
    device.sendMessage({ type: 'close', session: session.hex, keep: 20 })
    const find = () => device.messages.find((message) => message.type === 'kept' && message.session === session.hex)
    await expect.poll(find).toBeDefined()
    const kept = find()
    return kept?.type === 'kept' ? kept.handle : undefined
  }
})

describe('the flood of hidden states', () => {
  it('leaves the KV memory within its budget, and an honest device served', async () => {
    await using plane = await startDataPlane(scriptedPart(), { budgetBytes: 64 * perSession, ownerBytes: 48 * perSession })
    await using honest = await connectDevice(plane.dataUrl, 'honest', width)
    const session = await honest.open(testModelId)
    const stop = new AbortController()
    const target = { mqttUrl: '', httpUrl: plane.httpUrl, dataUrl: plane.dataUrl }
    const flood = hiddenStatesFlood({ width }).run(target, stop.signal)
    for (let round = 0; round < 20; round++) {
      await honest.rows(session, { base: 0, states: rows(4) })
      expect(plane.kvBytes()).toBeLessThanOrEqual(64 * perSession)
      await sleep(20)
    }
    stop.abort()
    expect(await flood).toMatchObject({ sessions: expect.any(Number), faults: expect.any(Number) })
  })
})
