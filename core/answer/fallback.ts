import { BrimError, type ErrorCode } from '../base/errors.ts'
import { startOf, type TokenDelta, type TokenEndpoint } from './endpoint.ts'
import { Prompt } from './prompt.ts'
import { type Answered, inTokensOf, sharesTokens } from './text-model.ts'

/** No bridge could be reached: at the start of an answer, or after its session broke off and no bridge took it over in time. */
const bridgeLost: ReadonlySet<ErrorCode> = new Set(['LINK_LOST', 'BRIDGE_UNREACHABLE', 'SESSION_REFUSED', 'NOT_AUTHORIZED'])

const isBridgeLost = (error: unknown): error is BrimError => error instanceof BrimError && bridgeLost.has(error.code)

/**
 * An endpoint made of two: where the first loses its bridge, the second continues the answer, to its own end of text and
 * within its own context. The first has freed its memory before the second takes any.
 */
export function withFallback(first: TokenEndpoint, second: TokenEndpoint): TokenEndpoint {
  return {
    model: first.model,
    async *answer(request, signal) {
      const prompt = sharesTokens(second.model, first.model)
        ? new Prompt({ kind: 'ids', tokens: { model: first.model, ids: await request.prompt.idsFor(first.model, signal) } })
        : request.prompt
      await prompt.check(second.model, signal)
      let { maxTokens } = await startOf(request, first.model, signal)
      let answered: Answered = request.answered ?? { model: first.model, ids: [] }
      let cause: BrimError
      try {
        for await (const delta of first.answer(request, signal)) {
          answered = continued(answered, delta)
          maxTokens -= delta.tokens.length
          yield delta
        }
        return
      } catch (error) {
        if (signal.aborted || !isBridgeLost(error)) throw error
        cause = error
      }
      try {
        const rest = second.answer({ ...request, prompt, answered, maxTokens }, signal)
        for await (const delta of rest) yield { ...delta, cause }
      } catch (error) {
        throw error instanceof BrimError && error.code === 'CONTEXT_OVERFLOW' ? noRoom(second, error, cause) : error
      }
    },
  }
}

/** The answer so far with one more delta, in the tokens of its model. */
function continued(answered: Answered, { source: { model }, tokens }: TokenDelta): Answered {
  return { model, ids: [...inTokensOf(model, answered), ...tokens] }
}

/** The missing bridge is what the client can wait for, so its code remains. */
const noRoom = ({ model }: TokenEndpoint, overflow: BrimError, cause: BrimError) =>
  new BrimError(cause.code, `${cause.message}; the fallback model ${model.name} cannot continue: ${overflow.message}`, {
    cause,
    hint: 'ask again when a bridge is reachable, or shorten the prompt',
  })
