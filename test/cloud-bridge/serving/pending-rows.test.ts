import { expect, it } from 'vitest'
import { PendingRows } from '../../../cloud-bridge/serving/pending-rows.ts'
import { scriptedPart } from '../../support/scripted-part.ts'

const states = { rows: 5, width: 1, half: Uint16Array.of(1, 2, 3, 4, 5) }

it('returns its rows in pieces, each with the parents and the selection of its rows', () => {
  const rows = new PendingRows({ states, parents: [9, 10, 10, 11, 12], select: [1, 4] }, 0)
  const sequence = scriptedPart().createSequence()
  expect(rows.piece(sequence, 3)).toMatchObject({ states: { rows: 3 }, parents: [9, 10, 10], select: [1] })
  expect(rows.add({ rows: 1, width: 1, half: Uint16Array.of(20) }, 3, 10, 50)).toBeUndefined()
  expect(rows.piece(sequence, 2)).toMatchObject({ states: { rows: 2 }, parents: [11, 12], select: [1] })
  expect(rows.add({ rows: 1, width: 1, half: Uint16Array.of(50) }, 2, 15, 100)).toEqual({
    states: { rows: 2, width: 1, half: Uint16Array.of(20, 50) },
    queueMs: 75,
    computeMs: 25,
  })
})
