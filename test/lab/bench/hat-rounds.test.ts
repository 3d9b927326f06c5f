import { describe, expect, it } from 'vitest'
import { roundTimesOf } from '../../../lab/bench/hat/round-times.ts'

const lines = (all: readonly object[]) => all.map((line) => JSON.stringify(line)).join('\n')
const taken = (id: number, atMs: number, kind: string, ...actions: readonly object[]) => ({ id, atMs, input: { kind }, actions })
const exchange = { kind: 'exchange', from: 10, to: 12, returned: 2 }

/** An answer of one round, which begins at 100: feed 2, guess 3, feed 1, sent, 20 for the reply, 4 until the head, 5 for it, 1. */
const answer = (id: number, failure: readonly object[] = []) => [
  { id, machine: 'hat', settings: {} },
  taken(id, 0, 'opened', { kind: 'feed' }),
  taken(id, 50, 'fed', { kind: 'exchange', from: 0, to: 10, returned: 1 }),
  taken(id, 90, 'accepted', { kind: 'deliver', tokens: 1 }),
  taken(id, 100, 'taken', { kind: 'feed' }),
  taken(id, 102, 'fed', { kind: 'guess' }),
  taken(id, 105, 'guessed', { kind: 'feed' }),
  taken(id, 106, 'fed', exchange),
  taken(id, 106, 'sent', { kind: 'guess' }),
  ...failure,
  taken(id, 126, 'replied'),
  taken(id, 130, 'guessed', { kind: 'accept' }),
  taken(id, 135, 'accepted', { kind: 'deliver', tokens: 2 }),
  taken(id, 136, 'taken', { kind: 'end' }),
]
const bridgeOf = (streams: readonly number[]) => [
  { id: 1, machine: 'serving', settings: {} },
  ...streams.flatMap((stream, at) => [
    { id: 1, atMs: 0, input: { kind: 'session opened', stream }, actions: [] },
    // The prompt, then the round's rows, which wait for 3 and take 7.
    ...[0, 100].flatMap((from, i) => [
      { id: 1, atMs: from, input: { kind: 'rows', stream, rows: 2 }, actions: [] },
      { id: 1, atMs: from + 3, input: { kind: 'tick' }, actions: [{ kind: 'begin', step: 2 * at + i, pieces: [{ stream }] }] },
      { id: 1, atMs: from + 10, input: { kind: 'step ended', step: 2 * at + i }, actions: [] },
    ]),
  ]),
]
const passages = [
  { direction: 'up', bytes: 2_560, tookMs: 30 },
  { direction: 'down', bytes: 300, tookMs: 9 },
  { direction: 'up', bytes: 560, tookMs: 4 },
  { direction: 'down', bytes: 560, tookMs: 5 },
  // Ping and close are shorter than a row.
  { direction: 'up', bytes: 60, tookMs: 1 },
] as const

describe('where a round goes', () => {
  it('is taken from the recordings of both sides and from the link, and the parts make up the whole', () => {
    const times = roundTimesOf({
      agent: lines([...answer(1), ...answer(2)]),
      bridge: lines(bridgeOf([7, 8])),
      passages: [passages],
      rowBytes: 256,
    })!
    expect(times).toMatchObject({ rounds: 1, rowsUp: 2, acceptLength: 2, wholeUs: 36_000 })
    expect(times.partsUs).toEqual({
      input: 3_000,
      draft: 3_000,
      uplink: 4_000,
      queue: 3_000,
      middle: 7_000,
      downlink: 5_000,
      overtaken: 4_000,
      head: 5_000,
      rest: 2_000,
    })
  })

  it('leaves out rounds that a failure has repeated, and is undefined without a round', () => {
    const agent = lines(answer(1, [taken(1, 110, 'failed')]))
    const recorded = { agent, bridge: lines(bridgeOf([7])), passages: [passages], rowBytes: 256 }
    expect(roundTimesOf(recorded)).toBeUndefined()
  })
})
