import { describe, expect, it } from 'vitest'
import type { States } from '../../../core/wire/protocol/states.ts'
import { startDataPlane, testModelId } from '../../support/data-plane.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { scriptedPart } from '../../support/scripted-part.ts'
import { openStream, testServing } from '../../support/serving.ts'
import { connectDevice, type OpenSession, type TestDevice } from '../../support/test-device.ts'

const rows = (n: number): States => ({ rows: n, width: 2, half: new Uint16Array(n * 2).fill(0x3c00) })
const prefixMs = 60_000

/** Closes a session of 20 positions and caches the first `keep`. @returns the handle that the bridge sends */
async function closeAndKeep(device: TestDevice, session: OpenSession, keep: number): Promise<string | undefined> {
  await device.rows(session, { base: 0, states: rows(20) })
  device.sendMessage({ type: 'close', session: session.hex, keep })
  const answer = () => device.messages.find((message) => message.type === 'kept' && message.session === session.hex)
  await expect.poll(answer).toBeDefined()
  const message = answer()
  return message?.type === 'kept' ? message.handle : undefined
}

describe('the KV that a closed session leaves in the prefix cache', () => {
  it('is resumed by its device, from any of its positions, also on another connection', async () => {
    await using plane = await startDataPlane(scriptedPart(), { prefixMs })
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const handle = await closeAndKeep(device, await device.open(testModelId), 18)
    await using again = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const session = await again.open(testModelId, { handle: handle!, length: 12 })
    expect(session.held).toBe(12)
    await again.rows(session, { base: 12, states: rows(4) })
  })

  it.each([
    ['another device', 'jetson-02', 12],
    ['a request for more positions than it has', 'jetson-01', 19],
  ])('is not resumed by %s', async (_, name, length) => {
    await using plane = await startDataPlane(scriptedPart(), { prefixMs })
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const handle = await closeAndKeep(device, await device.open(testModelId), 18)
    await using other = await connectDevice(plane.dataUrl, name, 2)
    expect((await other.open(testModelId, { handle: handle!, length })).held).toBe(0)
  })

  it('is copied from the session that has taken it over, while that still has the positions unchanged', async () => {
    await using plane = await startDataPlane(scriptedPart(), { prefixMs })
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const handle = (await closeAndKeep(device, await device.open(testModelId), 18))!
    const first = await device.open(testModelId, { handle, length: 12 })
    expect((await device.open(testModelId, { handle, length: 12 })).held).toBe(12)
    // It continues from position 8, which overwrites what followed.
    await device.rows(first, { base: 8, states: rows(6) })
    expect((await device.open(testModelId, { handle, length: 12 })).held).toBe(0)
    expect((await device.open(testModelId, { handle, length: 8 })).held).toBe(8)
    device.sendMessage({ type: 'close', session: first.hex })
    await expect.poll(() => plane.sessions.count).toBe(3)
    expect((await device.open(testModelId, { handle, length: 8 })).held).toBe(0)
  })

  it('is no longer copied from a stream that has gathered rows before its end', async () => {
    const serving = testServing(scriptedPart(), { kv: { prefixMs } })
    const rowsOf = (n: number) => ({ states: rows(n), select: 'none' as const })
    const first = await openStream(serving)
    await first.append(rowsOf(20))
    const resume = { handle: (await first.keep(18))!, length: 12 }
    const taken = (await serving.open('jetson-01', resume))!
    const copy = (await serving.open('jetson-01', resume))!
    expect([taken.moved, copy.moved, copy.stream.length]).toEqual([true, false, 12])
    await taken.stream.append(rowsOf(4))
    taken.stream.gather(8, [12, 13])
    expect((await serving.open('jetson-01', resume))!.stream.length).toBe(0)
    expect((await serving.open('jetson-01', { ...resume, length: 8 }))!.stream.length).toBe(8)
  })

  it('is released when serving closes, and not cached after that', async () => {
    const serving = testServing(scriptedPart(), { kv: { prefixMs } })
    const [first, second] = [await openStream(serving), await openStream(serving)]
    for (const stream of [first, second]) await stream.append({ states: rows(20), select: 'none' })
    expect(await first.keep(20)).toMatch(/^[0-9a-f]{32}$/)
    await serving.close()
    expect(serving.memory.cachedBytes).toBe(0)
    expect(await second.keep(20)).toBeUndefined()
    expect(serving.memory.usedBytes).toBe(0)
  })

  it('is released when it expires', async () => {
    const clock = fakeClock()
    await using plane = await startDataPlane(scriptedPart(), { prefixMs, clock })
    const device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    await closeAndKeep(device, await device.open(testModelId), 18)
    expect(plane.kvBytes()).toBeGreaterThan(0)
    await device[Symbol.asyncDispose]()
    await clock.advance(prefixMs - 1)
    expect(plane.kvBytes()).toBeGreaterThan(0)
    await clock.advance(1)
    expect(plane.kvBytes()).toBe(0)
  })

  it('is not cached where caching is off, or where the session has fewer positions', async () => {
    await using without = await startDataPlane(scriptedPart())
    await using one = await connectDevice(without.dataUrl, 'jetson-01', 2)
    expect(await closeAndKeep(one, await one.open(testModelId), 18)).toBeUndefined()
    await using plane = await startDataPlane(scriptedPart(), { prefixMs })
    await using two = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    expect(await closeAndKeep(two, await two.open(testModelId), 21)).toBeUndefined()
    expect([without.kvBytes(), plane.kvBytes()]).toEqual([0, 0])
  })

  it('is purged for one device, cached or taken over, and stays for others', async () => {
    await using plane = await startDataPlane(scriptedPart(), { prefixMs })
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    await using other = await connectDevice(plane.dataUrl, 'jetson-02', 2)
    const cached = (await closeAndKeep(device, await device.open(testModelId), 18))!
    const others = (await closeAndKeep(other, await other.open(testModelId), 18))!
    const taken = (await closeAndKeep(device, await device.open(testModelId), 18))!
    expect((await device.open(testModelId, { handle: taken, length: 12 })).held).toBe(12)
    plane.serving.purge('jetson-01')
    for (const handle of [cached, taken]) expect((await device.open(testModelId, { handle, length: 12 })).held).toBe(0)
    expect((await other.open(testModelId, { handle: others, length: 12 })).held).toBe(12)
  })

  it('is evicted when a new session needs its memory', async () => {
    const perSession = 64 * 2 * 16 * 4
    await using plane = await startDataPlane(scriptedPart(), { prefixMs, budgetBytes: 1.5 * perSession })
    await using device = await connectDevice(plane.dataUrl, 'jetson-01', 2)
    const handle = await closeAndKeep(device, await device.open(testModelId), 18)
    const next = await device.open(testModelId)
    await device.rows(next, { base: 0, states: rows(20) })
    expect((await device.open(testModelId, { handle: handle!, length: 12 })).held).toBe(0)
  })
})
