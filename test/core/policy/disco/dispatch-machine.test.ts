import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { DispatchQuestion } from '../../../../core/policy/disco/answer-dispatcher.ts'
import { DispatchEstimates } from '../../../../core/policy/disco/dispatch-estimates.ts'
import { DispatchMachine } from '../../../../core/policy/disco/dispatch-machine.ts'
import type { Side } from '../../../../core/policy/disco/state.ts'

const never = Number.POSITIVE_INFINITY
const both: readonly Side[] = ['local', 'remote']
const common = { continues: true, pauses: true, costs: { prompt: 1, output: 1 } }
const sides: DispatchQuestion['sides'] = {
  local: { ...common, model: 'small' },
  remote: { ...common, name: 'server', costs: { prompt: 2, output: 2 } },
}
const settings = { constrained: 'auto', share: 0.5, patienceMs: 5_000, tokensPerS: 5, smallModelAnswers: 1 } as const
const machineOf = (estimates = new DispatchEstimates()) => new DispatchMachine(settings, estimates)

const step = fc.record({
  answer: fc.nat(3),
  kind: fc.constantFrom('next' as const, 'piece' as const, 'fail' as const, 'leave' as const),
  side: fc.constantFrom<Side>('local', 'remote'),
  mode: fc.constantFrom(
    'private' as const,
    'local' as const,
    'cloud' as const,
    'cheap' as const,
    'fast' as const,
    'auto' as const,
  ),
  admitted: fc.subarray([...both]),
  waitMs: fc.nat(3_000),
  isLast: fc.boolean(),
})

describe('whatever happens to answers', () => {
  it('only admitted sides start, and the small model is free once all have ended', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const machine = machineOf()
        const phases = new Map<number, 'asked' | 'admitted' | 'begun'>()
        const admitted = new Map<number, readonly Side[]>()
        const working = new Set<string>()
        let nowMs = 0
        const carryOut = (answer: number, input: Parameters<DispatchMachine['handle']>[0]) => {
          for (const action of machine.handle(input, nowMs)) {
            if (action.kind === 'start') {
              expect(admitted.get(answer)).toContain(action.side)
              working.add(`${answer} ${action.side}`)
            } else if (action.kind === 'stop') working.delete(`${answer} ${action.side}`)
          }
        }
        const end = (answer: number) => {
          if (phases.get(answer) === 'asked') carryOut(answer, { kind: 'admit', answer, sides: [], sharesTokens: true })
          else if (phases.has(answer)) {
            carryOut(answer, { kind: 'left', answer })
            carryOut(answer, { kind: 'end', answer })
          }
          for (const side of both) working.delete(`${answer} ${side}`)
          phases.delete(answer)
        }
        for (const { answer, kind, side, mode, admitted: some, waitMs, isLast } of steps) {
          nowMs += waitMs
          const phase = phases.get(answer)
          if (kind === 'leave') end(answer)
          else if (kind === 'next' && phase === undefined) {
            carryOut(answer, { kind: 'ask', answer, question: { mode, sides, promptTokens: 20 } })
            phases.set(answer, 'asked')
          } else if (kind === 'next' && phase === 'asked') {
            const own = some.length > 0 ? some : both
            admitted.set(answer, own)
            carryOut(answer, { kind: 'admit', answer, sides: own, sharesTokens: true })
            phases.set(answer, 'admitted')
          } else if (kind === 'next' && phase === 'admitted') {
            carryOut(answer, { kind: 'begin', answer })
            phases.set(answer, 'begun')
          } else if (kind === 'next') carryOut(answer, { kind: 'tick', answer })
          else if (working.has(`${answer} ${side}`)) {
            if (kind === 'fail' || isLast) working.delete(`${answer} ${side}`)
            const piece = { id: 0, tokens: 1, isLast, border: 'word' } as const
            carryOut(answer, kind === 'fail' ? { kind: 'failed', answer, side } : { kind: 'received', answer, side, piece })
          }
        }
        for (const answer of [...phases.keys()]) end(answer)
        expect(machine.smallModel.isFree).toBe(true)
        expect(machine.wakeMs).toBeUndefined()
      }),
      { numRuns: 500 },
    )
  })
})

describe('a plan', () => {
  it('does not count on a small model that another answer has been promised', () => {
    const machine = machineOf()
    const wanted = (answer: number) => {
      machine.handle({ kind: 'ask', answer, question: { mode: 'fast', sides, promptTokens: 20 } }, 0)
      return machine.draftOf(answer).wanted
    }
    expect(wanted(1)).toEqual({ local: 0, remote: 0 })
    expect(wanted(2)).toEqual({ local: never, remote: 0 })
    machine.handle({ kind: 'admit', answer: 1, sides: [], sharesTokens: true }, 0)
    expect(wanted(3)).toEqual({ local: 0, remote: 0 })
  })

  it('learns from the starts that its controller makes, and from answers of one endpoint alone', () => {
    const estimates = new DispatchEstimates()
    const machine = machineOf(estimates)
    machine.handle({ kind: 'ask', answer: 1, question: { mode: 'fast', sides, promptTokens: 20 } }, 0)
    machine.handle({ kind: 'admit', answer: 1, sides: both, sharesTokens: true }, 0)
    machine.handle({ kind: 'begin', answer: 1 }, 0)
    const piece = { id: 0, tokens: 1, isLast: true, border: 'word' } as const
    expect(machine.handle({ kind: 'received', answer: 1, side: 'remote', piece }, 300)).toContainEqual({
      kind: 'stop',
      side: 'local',
    })
    machine.handle({ kind: 'end', answer: 1, tokens: 1 }, 300)
    const single = { promptTokens: 5, tokens: 9, firstTokenMs: 70, canceledMs: undefined, hasFailed: false }
    machine.handle({ kind: 'single', name: 'hat', single }, 400)
    expect([estimates.remoteTtft('server').quantile(0.5), estimates.remoteTtft('hat').quantile(0.5)]).toEqual([300, 70])
    expect([estimates.localTtft('small').line, estimates.answerTokens.mean]).toEqual([undefined, expect.closeTo(5, 1)])
  })
})
