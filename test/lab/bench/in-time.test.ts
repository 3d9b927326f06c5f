import { expect, it } from 'vitest'
import { playInTime } from '../../../lab/bench/in-time.ts'

it('begins each item when it is due, whether or not earlier ones have ended, and returns the results in order', async () => {
  const begun: number[] = []
  const ends = [60, 5]
  const results = await playInTime([{ atMs: 0 }, { atMs: 20 }], new AbortController().signal, async ({ atMs }, beganMs, nth) => {
    begun.push(nth)
    expect(beganMs).toBeGreaterThan(atMs - 2)
    await new Promise((done) => setTimeout(done, ends[nth]))
    return nth
  })
  expect([begun, results]).toEqual([
    [0, 1],
    [0, 1],
  ])
})

it('stops waiting when it is interrupted', async () => {
  const stop = new AbortController()
  const playing = playInTime([{ atMs: 60_000 }], stop.signal, async () => {})
  stop.abort(new Error('interrupted'))
  await expect(playing).rejects.toThrow()
})
