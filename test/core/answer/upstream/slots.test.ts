import { describe, expect, it } from 'vitest'
import { Slots } from '../../../../core/answer/upstream/slots.ts'

const never = new AbortController().signal
const turn = () => new Promise((resolve) => setImmediate(resolve))

/** Takes a slot; `entered` lists the holders, in order. */
function taker(slots: Slots) {
  const entered: string[] = []
  const frees = new Map<string, () => void>()
  const take = (name: string, signal = never) =>
    slots.take(signal).then((free) => {
      entered.push(name)
      frees.set(name, free)
    })
  return { entered, take, free: (name: string) => frees.get(name)?.() }
}

describe('slots', () => {
  it('are passed on in the order of arrival', async () => {
    const { entered, take, free } = taker(new Slots({ requests: 1, queue: 2 }))
    const all = ['a', 'b', 'c'].map((name) => take(name))
    await turn()
    expect(entered).toEqual(['a'])
    free('a')
    await turn()
    expect(entered).toEqual(['a', 'b'])
    free('b')
    await Promise.all(all)
    expect(entered).toEqual(['a', 'b', 'c'])
  })

  it('refuse a request that finds the queue full, and say when to return', async () => {
    const { take, free } = taker(new Slots({ requests: 1, queue: 1 }))
    await take('a')
    const waiting = take('b')
    await expect(take('c')).rejects.toMatchObject({ code: 'QUEUE_FULL', retryAfterMs: 1_000 })
    free('a')
    await waiting
    free('b')
    await take('d')
  })

  it('skip a request that has been canceled while it waited', async () => {
    const { entered, take, free } = taker(new Slots({ requests: 1, queue: 2 }))
    await take('a')
    const canceled = new AbortController()
    const second = take('b', canceled.signal)
    const third = take('c')
    canceled.abort(new Error('canceled'))
    await expect(second).rejects.toThrow('canceled')
    free('a')
    await third
    expect(entered).toEqual(['a', 'c'])
  })
})
