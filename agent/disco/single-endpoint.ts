import { startOf, type TokenEndpoint } from '../../core/answer/endpoint.ts'
import type { DiscoFigures } from '../../core/answer/figures.ts'
import type { Clock } from '../../core/base/clock.ts'
import type { SideWork } from '../../core/policy/disco/controller-plan.ts'
import type { StartEstimate } from '../../core/policy/disco/start-estimates.ts'

export interface SingleEndpointOptions {
  readonly clock: Clock
  /** Of the endpoint's starts, for the answers that may use it beside others. */
  readonly starts: StartEstimate
  /** @param hasFailed otherwise the answer has ended, or its reader has left */
  onEnded(work: SideWork, hasFailed: boolean): void
}

/**
 * HAT's answers where nothing is left to decide: no other side may take part, no budget limits them, and their readers take tokens
 * as fast as these come. They pass through no plan, buffer or reservation.
 */
export function singleEndpoint(endpoint: TokenEndpoint, { clock, starts, onEnded }: SingleEndpointOptions): TokenEndpoint {
  const { model } = endpoint
  return {
    model,
    async *answer(request, signal) {
      const startedMs = clock.nowMs()
      const { length: promptTokens } = (await startOf(request, model, signal)).ids
      let tokens = 0
      let hasBegun = false
      let hasFailed = false
      const disco = () => figuresOf({ promptTokens, tokens })
      try {
        for await (const delta of endpoint.answer(request, signal)) {
          if (!hasBegun) starts.firstToken(clock.nowMs() - startedMs, promptTokens)
          hasBegun = true
          tokens += delta.tokens.length
          yield { ...delta, disco }
        }
      } catch (error) {
        hasFailed = true
        throw error
      } finally {
        if (!hasBegun && (signal.aborted || !hasFailed)) starts.canceled(clock.nowMs() - startedMs, promptTokens)
        onEnded({ promptTokens, tokens }, hasFailed)
      }
    },
  }
}

/** HAT in the place of the server. */
const figuresOf = (work: SideWork): DiscoFigures => ({
  mode: 'private',
  constrained: null,
  startMs: { device: null, server: 0 },
  winner: 'server',
  migrations: [],
  exhausted: null,
  cost: { device: { promptTokens: 0, tokens: 0, dollars: 0 }, server: { ...work, dollars: null, joules: null, energy: null } },
  tokensPerS: 0,
  stalls: 0,
  stalledMs: 0,
})
