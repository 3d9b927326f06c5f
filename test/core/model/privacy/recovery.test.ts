import { describe, expect, it } from 'vitest'
import { recoveryOf } from '../../../../core/model/privacy/recovery.ts'

const words = ['', 'The', ' letter', ' for', ' Anna', ' came', ' at', ' 7', '.', ' She', ' slept']
const decode = (ids: readonly number[]) => ids.map((id) => words[id]).join('')
const original = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 8]

describe('what an attack has recovered', () => {
  it('is all where every first guess is right', () => {
    const guesses = original.map((id) => [id])
    expect(recoveryOf(original, guesses, decode)).toEqual({ top1: 1, top10: 1, rougeL: 1, entities: 1 })
  })

  it('counts first guesses, first ten, words in their order, and names and numbers apart', () => {
    // The name and one word are second guesses; "came" and "at" have changed places.
    const guesses = [[1], [2], [3], [9, 4], [6, 5], [5, 6], [7], [8], [9], [3, 10], [8]]
    const { top1, top10, rougeL, entities } = recoveryOf(original, guesses, decode)
    expect([top1, top10]).toEqual([7 / 11, 1])
    // The, letter, for, came or at, 7, She: of nine words.
    expect(rougeL).toBeCloseTo(6 / 9)
    // 7 of Anna and 7: "She" begins a sentence.
    expect(entities).toBe(0.5)
  })

  it('is nothing of guesses that are all wrong, and has no names where the text has none', () => {
    expect(recoveryOf([2, 3], [[0], [0]], decode)).toEqual({ top1: 0, top10: 0, rougeL: 0, entities: null })
  })

  it('takes ten guesses at most', () => {
    const eleven = [...Array.from({ length: 10 }, () => 0), 2]
    expect(recoveryOf([2], [eleven], decode).top10).toBe(0)
  })
})
