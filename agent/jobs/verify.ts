import type { TokenEndpoint } from '../../core/answer/endpoint/endpoint.ts'
import type { TextModel } from '../../core/answer/endpoint/text-model.ts'
import { type Drafter, stateless } from '../../core/model/draft/drafter.ts'
import { greedy } from '../../core/model/engine/sampler.ts'
import { VerifyInput } from '../../core/wire/protocol/jobs.ts'
import { jobClient, promptOf } from './generate.ts'
import { type JobHandler, parseInput } from './job-handler.ts'

/**
 * `hat.verify`: how much of a continuation the LLM would have written itself, greedily. The continuation is the draft, so
 * a few verifications check all of it; they end with the first token that the LLM would have chosen otherwise.
 * @param draftedBy the split model with this drafter
 */
export function hatVerify(model: TextModel, draftedBy: (createDrafter: () => Drafter) => TokenEndpoint): JobHandler {
  return async (input, _emitText, signal) => {
    const { continuation, ...rest } = parseInput(VerifyInput, input)
    const prompt = promptOf(rest)
    const promptTokens = (await prompt.idsFor(model, jobClient, signal)).length
    const draft = await model.prompts.encode({ kind: 'text', text: continuation, continues: true }, jobClient, signal)
    const endpoint = draftedBy(() => continuationDrafter(promptTokens, draft))
    const request = { prompt, maxTokens: draft.length + 1, sampling: greedy, stop: [], client: jobClient }
    const chosen: number[] = []
    let rounds = 0
    for await (const { tokens } of endpoint.answer(request, signal)) {
      chosen.push(...tokens)
      rounds += 1
      if (chosen.some((token, at) => token !== draft[at])) break
    }
    const differs = chosen.findIndex((token, at) => token !== draft[at])
    // The request is one token longer than the continuation: that token always differs, unless the text ended with it.
    const acceptedTokens = differs < 0 ? chosen.length : differs
    const corrected = chosen.slice(0, acceptedTokens + 1)
    return {
      continuationTokens: draft.length,
      acceptedTokens,
      acceptLength: corrected.length,
      isAccepted: acceptedTokens === draft.length,
      text: model.tokenizer.decode(corrected, { skipSpecialTokens: true }),
      rounds,
    }
  }
}

/** Proposes all that follows in the continuation at once. */
function continuationDrafter(promptTokens: number, continuation: readonly number[]): Drafter {
  return {
    ...stateless,
    mayDraftAhead: false,
    next: async (known, rows) =>
      rows.map((row) => {
        const at = known.rows.positionOf(row) + 1 - promptTokens
        return at < 0
          ? []
          : continuation.slice(at).map((token) => ({ token, source: 'given', topProbability: 1, alternatives: [] }))
      }),
  }
}
