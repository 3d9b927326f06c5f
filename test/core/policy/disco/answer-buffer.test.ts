import { describe, expect, it } from 'vitest'
import { AnswerBuffer } from '../../../../core/policy/disco/answer-buffer.ts'
import type { ControllerPlan, Piece } from '../../../../core/policy/disco/controller-plan.ts'
import { SideProgress } from '../../../../core/policy/disco/side-progress.ts'
import { PendingActions } from '../../../../core/policy/machine.ts'

const piece = (border: Piece['border'] = 'word', tokens = 1, isLast = false): Piece => ({ tokens, isLast, border })

describe('the buffer of an answer', () => {
  it('delivers a piece when the reader has read the one before, and one without tokens at once', () => {
    const buffer = new AnswerBuffer(5)
    const pieces = [piece('word', 2), piece('word', 0), piece(), piece('none', 0, true)]
    for (const each of pieces) buffer.push(each, 100)
    expect([buffer.take(100), buffer.take(100), buffer.take(100)]).toEqual([pieces[0], pieces[1], undefined])
    expect([buffer.dueMs, buffer.lastsUntilMs(100), buffer.unread]).toEqual([500, 700, 1])
    expect([buffer.take(499), buffer.take(500), buffer.take(500), buffer.take(9_999)]).toEqual([
      undefined,
      pieces[2],
      pieces[3],
      undefined,
    ])
    expect([buffer.isComplete, buffer.tokens, buffer.stalls]).toEqual([true, 3, 0])
  })

  it('makes up for deliveries that come late, so that the reader gets its rate', () => {
    const buffer = new AnswerBuffer(60)
    for (let at = 0; at < 600; at++) buffer.push(piece(), 0)
    let nowMs = 0
    for (let at = 0; at < 600; at++) {
      // As a timer of whole milliseconds, which fires late.
      nowMs = Math.max(nowMs, Math.ceil(buffer.dueMs!)) + (at % 5)
      expect(buffer.take(nowMs)).toBeDefined()
    }
    expect(nowMs).toBeGreaterThan((599 * 1_000) / 60)
    expect(nowMs).toBeLessThan((599 * 1_000) / 60 + 10)
    // But not for a device that slept.
    const slept = new AnswerBuffer(10)
    for (let at = 0; at < 60; at++) slept.push(piece(), 0)
    slept.take(0)
    let taken = 0
    while (slept.take(60_000)) taken += 1
    expect(taken).toBe(3)
  })

  it('counts as a stall what the reader waits for, once it has begun', () => {
    const buffer = new AnswerBuffer(5)
    buffer.push(piece(), 5_000)
    buffer.take(5_000)
    buffer.push(piece(), 5_200)
    buffer.take(5_200)
    buffer.push(piece(), 5_650)
    expect([buffer.stalls, buffer.stalledMs]).toEqual([1, 250])
  })

  it.each<[Piece['border'][], number]>([
    [['word', 'character', 'word', 'none'], 2],
    [['word', 'character', 'none', 'character', 'none'], 3],
    [['word', 'none', 'none'], 3],
  ])('has a tail of %j after the first piece that begins at %i', (borders, at) => {
    const buffer = new AnswerBuffer(5)
    for (const border of borders) buffer.push(piece(border), 0)
    buffer.take(0)
    expect(buffer.tail().at).toBe(at)
    expect(buffer.cut(buffer.tail().at)).toHaveLength(borders.length - at)
    expect([buffer.tokens, buffer.unread]).toEqual([at, at - 1])
  })
})

describe('the progress of a side', () => {
  it('measures the time between its tokens without pauses', () => {
    const learn = { started() {}, firstToken() {}, canceled() {}, gap() {}, failed() {} }
    const sides = { local: { continues: true, pauses: true, costs: undefined, startMs: () => 0 } }
    const plan: Partial<ControllerPlan> = { sides, promptTokens: 7, learn }
    const side = new SideProgress('local', plan as ControllerPlan, new PendingActions())
    side.start([], 0, 0)
    expect(side.returnMs(7)).toBe(0)
    side.receive(piece(), 100)
    side.receive(piece(), 110)
    side.resume(1_000)
    side.receive(piece(), 1_010)
    expect([side.returnMs(10), side.tokens, side.promptTokens]).toEqual([10, 3, 7])
  })
})
