import { expect, it } from 'vitest'
import { pagesToSave } from '../../../../core/policy/serving/write-through.ts'

const stream = (name: string, duePages: number, drainedMs: number, duePageBytes = 10) => ({
  name,
  duePages,
  duePageBytes,
  drainedMs,
})
const names = (streams: readonly ReturnType<typeof stream>[], bytes: number) =>
  pagesToSave(streams, bytes).map(({ name }) => name)

const streams = [stream('none', 2, Number.NEGATIVE_INFINITY), stream('small', 1, 500), stream('large', 2, 9_000, 20)]

it('writes the pages of the largest buffers first, as many as fit into the time', () => {
  expect(names(streams, 40)).toEqual(['large', 'large'])
  expect(names(streams, 55)).toEqual(['large', 'large', 'small'])
  expect(names(streams, 1_000)).toEqual(['large', 'large', 'small', 'none', 'none'])
})

it('writes one page where none fits, and none where none is due', () => {
  expect(names(streams, 0)).toEqual(['large'])
  expect(names([stream('saved', 0, 5)], 1_000)).toEqual([])
})
