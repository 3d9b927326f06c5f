import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { FrameSlots } from '../../../../core/policy/hat/frame-slots.ts'

const intervalMs = 50

/** Times at which frames are sent, by a timer that is up to `lateMs` late, of verifications that are ready at these times. */
function sent(readyMs: readonly number[], untilMs: number, lateMs: readonly number[] = [0]) {
  const slots = new FrameSlots(intervalMs)
  const frames: { readonly atMs: number; readonly kind: string }[] = []
  const handle = (kind: 'ready' | 'time', atMs: number) =>
    frames.push(...slots.handle({ kind }, atMs).map((action) => ({ atMs, kind: action.kind })))
  let timers = 0
  let nowMs = 0
  const waiting = [...readyMs]
  for (;;) {
    const wakeMs =
      slots.wakeMs === undefined ? Number.POSITIVE_INFINITY : Math.max(nowMs, slots.wakeMs + lateMs[timers % lateMs.length]!)
    const next = Math.min(wakeMs, waiting[0] ?? Number.POSITIVE_INFINITY)
    if (next > untilMs) return frames
    nowMs = next
    if (next === waiting[0]) handle('ready', waiting.shift()!)
    else {
      timers += 1
      handle('time', next)
    }
  }
}

describe('slots', () => {
  it('send at the same times whatever is ready when', () => {
    const times = fc.uniqueArray(fc.integer({ min: 1, max: 2_000 }), { maxLength: 20 })
    fc.assert(
      fc.property(times, (later) => {
        const frames = sent([0, ...later.sort((a, b) => a - b)], 2_000)
        expect(frames.map(({ atMs }) => atMs)).toEqual(Array.from({ length: 41 }, (_, at) => at * intervalMs))
      }),
    )
  })

  it('send every verification at the first slot from when it is ready on, if each waits for the one before', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: intervalMs, max: 300 }), { maxLength: 8 }), (gaps) => {
        const ready = [0]
        for (const gap of gaps) ready.push(Math.ceil(ready.at(-1)! / intervalMs) * intervalMs + gap)
        const verifications = sent(ready, 5_000).filter(({ kind }) => kind === 'verification')
        expect(verifications.map(({ atMs }) => atMs)).toEqual(ready.map((atMs) => Math.ceil(atMs / intervalMs) * intervalMs))
      }),
    )
  })

  it('keep the grid after a late timer, without a burst', () => {
    const frames = sent([0], 600, [0, 120, 0, 0])
    expect(frames.map(({ atMs }) => atMs)).toEqual([0, 50, 220, 250, 300, 350, 520, 550, 600])
  })

  it('send nothing before the first verification', () => {
    const slots = new FrameSlots(intervalMs)
    expect([slots.wakeMs, slots.handle({ kind: 'time' }, 1_000)]).toEqual([undefined, []])
  })
})
