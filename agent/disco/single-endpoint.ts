import { startOf, type TokenEndpoint } from '../../core/answer/endpoint/endpoint.ts'
import type { DiscoFigures } from '../../core/answer/endpoint/figures.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import type { SingleAnswer } from '../../core/policy/disco/answer-dispatcher.ts'
import type { SideWork } from '../../core/policy/disco/controller-plan.ts'

export interface SingleEndpointOptions {
  readonly clock: Clock
  onEnded(answer: SingleAnswer): void
}

/**
 * HAT's answers where nothing is left to decide: no other side may take part, no budget limits them, and their readers take tokens
 * as fast as these come. They pass through no plan, buffer or reservation.
 */
export function singleEndpoint(endpoint: TokenEndpoint, { clock, onEnded }: SingleEndpointOptions): TokenEndpoint {
  const { model } = endpoint
  return {
    model,
    async *answer(request, signal) {
      const startedMs = clock.nowMs()
      const { length: promptTokens } = (await startOf(request, model, signal)).ids
      let tokens = 0
      let firstTokenMs: number | undefined
      let hasFailed = false
      const { rule } = request.disclosed ?? {}
      const disco = () => ({ ...figuresOf({ promptTokens, tokens }), ...(rule && { rule }) })
      try {
        for await (const delta of endpoint.answer(request, signal)) {
          firstTokenMs ??= clock.nowMs() - startedMs
          tokens += delta.tokens.length
          yield { ...delta, disco }
        }
      } catch (error) {
        hasFailed = true
        throw error
      } finally {
        const hasLeft = firstTokenMs === undefined && (signal.aborted || !hasFailed)
        const canceledMs = hasLeft ? clock.nowMs() - startedMs : undefined
        onEnded({ promptTokens, tokens, firstTokenMs, canceledMs, hasFailed })
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
