import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { probesPerMinute } from '../../../cloud-bridge/link/probe-answers.ts'
import { decodeFault } from '../../../core/wire/protocol/fault.ts'
import { encodeFrame } from '../../../core/wire/protocol/frame.ts'
import { encodeProbe, maxProbeBytes, type Probe } from '../../../core/wire/protocol/probe.ts'
import { startDataPlane, testModelId } from '../../support/data-plane.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { scriptedPart } from '../../support/scripted-part.ts'
import { connectDevice, type TestDevice } from '../../support/test-device.ts'

const bytes = (length: number) => Uint8Array.from({ length }, (_, at) => at * 7)
const sendProbe = (device: TestDevice, probe: Probe) => device.socket.send(encodeProbe(probe))
const answersOf = (device: TestDevice) => device.frames.filter(({ type }) => type === 'probe')
/** The bridge replies in order: after the reply to this frame, it has replied to all earlier ones. */
async function allAnswered(device: TestDevice, session: bigint): Promise<void> {
  device.socket.send(encodeFrame({ type: 'rows', session, epoch: 1, seq: 1 }))
  await device.fault({ id: session })
}

describe('a probe of a link', () => {
  it('is answered with the requested number of its bytes, without a session', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    sendProbe(device, { seq: 1, want: 0, payload: bytes(maxProbeBytes) })
    sendProbe(device, { seq: 2, want: 1000, payload: bytes(5000) })
    const [none, some] = [await device.reply({ id: 0n }, 1), await device.reply({ id: 0n }, 2)]
    expect([none.type, none.payload.length]).toEqual(['probe', 0])
    expect(some).toMatchObject({ type: 'probe', want: 0, queueMs: 0, computeMs: 0 })
    expect([...some.payload]).toEqual([...bytes(1000)])
    expect(plane.sessions.count).toBe(0)
  })

  it.each([
    ['requests more bytes than it carries', { seq: 3, want: 11, payload: bytes(10) }],
    ['is too large', { seq: 3, want: 0, payload: bytes(maxProbeBytes + 1) }],
  ])('that %s is answered by a fault; sessions continue', async (_, probe) => {
    await using plane = await startDataPlane(scriptedPart())
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const session = await device.open(testModelId)
    sendProbe(device, probe)
    expect(decodeFault(await device.reply({ id: 0n }, 3)).code).toBe('FRAME_INVALID')
    await device.rows(session, { base: 0, states: { rows: 1, width: 2, half: Uint16Array.of(1, 2) } })
  })

  it('is ignored beyond the limit per minute of its connection', async () => {
    const clock = fakeClock()
    await using plane = await startDataPlane(scriptedPart(), { clock })
    await using frequent = await connectDevice(plane.dataUrl, 'frequent', 2)
    await using other = await connectDevice(plane.dataUrl, 'other', 2)
    for (let seq = 1; seq <= 3 * probesPerMinute; seq++) sendProbe(frequent, { seq, want: 10, payload: bytes(10) })
    await allAnswered(frequent, 77n)
    expect(answersOf(frequent)).toHaveLength(probesPerMinute)
    sendProbe(other, { seq: 1, want: 0, payload: bytes(10) })
    expect((await other.reply({ id: 0n }, 1)).type).toBe('probe')
    await clock.advance(60_000)
    sendProbe(frequent, { seq: 100, want: 10, payload: bytes(10) })
    expect((await frequent.reply({ id: 0n }, 100)).type).toBe('probe')
    expect(frequent.socket.readyState).toBe(WebSocket.OPEN)
  })

  it('of random bytes affects neither the bridge nor other devices', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using good = await connectDevice(plane.dataUrl, 'good', 2)
    await using bad = await connectDevice(plane.dataUrl, 'bad', 2)
    const session = await good.open(testModelId)
    for (const [at, to] of fc.sample(fc.tuple(fc.nat({ max: 79 }), fc.nat({ max: 255 })), { numRuns: 300, seed: 9 })) {
      const frame = encodeProbe({ seq: 1, want: 20, payload: bytes(40) })
      frame[at] = to
      bad.socket.send(frame)
    }
    await allAnswered(bad, 77n)
    expect(answersOf(bad).length).toBeLessThanOrEqual(probesPerMinute)
    await good.rows(session, { base: 0, states: { rows: 1, width: 2, half: Uint16Array.of(1, 2) } })
  })
})
