import type { EndpointPlan } from '../../agent/disco/plan.ts'
import { type AnswerSide, shareTokens } from '../../agent/disco/side.ts'
import type { Endpoint } from '../../core/answer/endpoint/endpoint.ts'
import { AnswerController } from '../../core/policy/disco/answer-controller.ts'
import type { SideWork } from '../../core/policy/disco/controller-plan.ts'
import type { NumberedPiece } from '../../core/policy/disco/dispatch-machine.ts'
import type { Side } from '../../core/policy/disco/state.ts'

export const answerSide = (endpoint: Endpoint, more: Partial<AnswerSide> = {}): AnswerSide => ({
  endpoint,
  continues: true,
  pauses: true,
  costs: undefined,
  startMs: () => 0,
  ...more,
})

export interface Observed {
  readonly first: { readonly side: Side; readonly ms: number; readonly tokens: number }[]
  readonly canceled: { readonly side: Side; readonly ms: number; readonly tokens: number }[]
  readonly spent: Record<Side, SideWork>
  readonly ended: (number | undefined)[]
}

/** A plan of two sides that start at once. */
export function answerPlan(
  sides: EndpointPlan['sides'],
  more: Partial<EndpointPlan> = {},
): { readonly plan: EndpointPlan; readonly observed: Observed } {
  const nothing = { promptTokens: 0, tokens: 0 }
  const observed: Observed = { first: [], canceled: [], spent: { local: nothing, remote: nothing }, ended: [] }
  const made: Omit<EndpointPlan, 'controller' | 'handle'> = {
    mode: 'fast',
    sides,
    dispatch: { local: 0, remote: 0 },
    tokensPerS: 0,
    promptTokens: 7,
    expectedRemaining: () => 100,
    constrained: undefined,
    learn: {
      started() {},
      gap() {},
      failed() {},
      firstToken: (side, ms, tokens) => observed.first.push({ side, ms, tokens }),
      canceled: (side, ms, tokens) => observed.canceled.push({ side, ms, tokens }),
    },
    start(side, { promptTokens, limits }) {
      const add = (work: SideWork) => {
        const before = observed.spent[side]
        observed.spent[side] = { promptTokens: before.promptTokens + work.promptTokens, tokens: before.tokens + work.tokens }
      }
      add({ promptTokens, tokens: 0 })
      return {
        maxTokens: limits.tokens,
        sent() {},
        refused() {},
        arrived: (tokens) => add({ promptTokens: 0, tokens }),
        completed() {},
        left() {},
      }
    },
    ended: (tokens) => observed.ended.push(tokens),
    costOf: (side) => ({ ...observed.spent[side], dollars: null }),
    ...more,
  }
  const controller = new AnswerController<NumberedPiece>(made, shareTokens(sides))
  return { plan: { ...made, controller, handle: (input, nowMs) => controller.handle(input, nowMs) }, observed }
}
