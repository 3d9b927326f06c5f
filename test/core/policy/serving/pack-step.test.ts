import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { FairPacker, packStep } from '../../../../core/policy/serving/pack-step.ts'
import type { StreamState } from '../../../../core/policy/serving/policy.ts'
import { streamState } from '../../../support/serving-state.ts'

const step = { rows: 64, streams: 12 }
const limits = { promptRows: 32, minPromptRows: 4 }
const clients = ['a', 'b', 'c']

const streams = (phase: 'prefill' | 'decode', maxRows: number) =>
  fc
    .array(fc.tuple(fc.constantFrom(...clients), fc.integer({ min: 1, max: maxRows })), { maxLength: 60 })
    .map((all) => all.map(([client, waitingRows], id) => streamState(id, { client, waitingRows, phase })))

const of = (client: string, all: readonly StreamState[]) => all.filter((stream) => stream.client === client)
const clientsIn = (all: readonly StreamState[]) => new Set(all.map(({ client }) => client)).size

describe('a step', () => {
  it('has at least its even share of the places for each client that wants them, and is full where enough wait', () => {
    fc.assert(
      fc.property(streams('decode', 1), (all) => {
        const taken = new Set(new FairPacker().pack(all, step, limits).map(({ stream }) => stream))
        expect(taken.size).toBe(Math.min(all.length, step.streams))
        for (const client of clients) {
          const own = of(client, all)
          const share = Math.min(own.length, Math.floor(step.streams / clientsIn(all)))
          expect(own.filter(({ id }) => taken.has(id)).length).toBeGreaterThanOrEqual(share)
        }
      }),
    )
  })

  it('step by step, serves each client that always waits with its even share of the rows, less one step', () => {
    const lengths = fc.record({
      a: fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 20 }),
      b: fc.array(fc.integer({ min: 40, max: 200 }), { minLength: 1, maxLength: 3 }),
    })
    fc.assert(
      fc.property(lengths, ({ a, b }) => {
        const packer = new FairPacker()
        let waiting = [...a.map((rows) => ({ client: 'a', rows })), ...b.map((rows) => ({ client: 'b', rows }))].map(
          ({ client, rows }, id) => streamState(id, { client, waitingRows: rows, phase: 'prefill' }),
        )
        const served = { a: 0, b: 0 }
        for (let at = 0; at < 60; at++) {
          const rows = new Map(packer.pack(waiting, step, limits).map(({ stream, rows }) => [stream, rows]))
          for (const { id, client } of waiting) served[client as 'a' | 'b'] += rows.get(id) ?? 0
          // A prompt that has ended is followed by another one of its length, at the end.
          const next = waiting.map((stream) => ({ ...stream, waitingRows: stream.waitingRows - (rows.get(stream.id) ?? 0) }))
          const again = next
            .filter(({ waitingRows }) => waitingRows === 0)
            .map((stream) => ({ ...stream, waitingRows: stream.client === 'a' ? a[stream.id]! : b[stream.id - a.length]! }))
          waiting = [...next.filter(({ waitingRows }) => waitingRows > 0), ...again]
          expect(served.b).toBeGreaterThanOrEqual((served.a + served.b) / 2 - limits.promptRows)
        }
      }),
    )
  })

  it('has a short prompt of another client in its next step, in the midst of a long one', () => {
    const packer = new FairPacker()
    const long = streamState(1, { client: 'a', waitingRows: 5_000, phase: 'prefill' })
    const short = streamState(2, { client: 'b', waitingRows: 10, phase: 'prefill' })
    expect(packer.pack([long, short], step, limits)).toEqual([{ stream: 1, rows: 32 }])
    expect(packer.pack([long, short], step, limits)).toEqual([
      { stream: 2, rows: 10 },
      { stream: 1, rows: 22 },
    ])
  })

  it('is as without clients where there is one', () => {
    fc.assert(
      fc.property(streams('prefill', 100), (all) => {
        const own = all.map((stream) => ({ ...stream, client: 'a' }))
        expect(new FairPacker().pack(own, step, limits)).toEqual(packStep(own, step, limits))
      }),
    )
  })
})
