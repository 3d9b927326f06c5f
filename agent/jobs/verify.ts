import { BrimError } from '../../core/base/errors.ts'
import { type Drafter, withoutMemory } from '../../core/draft/drafter.ts'
import { answerBudget } from '../../core/engine/generate.ts'
import type { Sampling } from '../../core/engine/sampler.ts'
import { VerifyInput } from '../../core/protocol/jobs.ts'
import type { RoundsOptions } from '../answer/fallback.ts'
import type { RequestContext } from '../api/request.ts'
import type { HatRequest, HatRound } from '../hat/session.ts'
import { requestOf } from './generate.ts'
import type { JobHandler } from './runner.ts'

/** A session of the split model in which this drafter proposes. */
export type DraftedRun = (createDrafter: () => Drafter, request: HatRequest, signal: AbortSignal) => AsyncGenerator<HatRound>

const greedy: Sampling = { temperature: 0, topP: 1, topK: 0, seed: 0 }

/**
 * `hat.verify`: how much of a continuation the LLM would have written itself, greedily. The continuation is the draft, so
 * that a few verifications check all of it; they end with the first token that the LLM would have chosen otherwise.
 */
export function hatVerify({ manifest, tokenizer, clock }: RoundsOptions, context: RequestContext, run: DraftedRun): JobHandler {
  return async (input, _say, signal) => {
    const parsed = VerifyInput.safeParse(input)
    if (!parsed.success)
      throw new BrimError('REQUEST_INVALID', `the job's input: ${parsed.error.issues[0]?.message ?? 'invalid'}`)
    const { continuation, ...prompt } = parsed.data
    const { promptIds, client } = requestOf(prompt, context)
    const draft = tokenizer.encode(continuation, { addSpecialTokens: false })
    const maxTokens = answerBudget(promptIds, draft.length + 1, manifest.dims)
    const request = {
      client,
      prompt: promptIds,
      maxTokens,
      sampling: greedy,
      eos: manifest.tokens.eos,
      acceptedMs: clock.nowMs(),
    }
    const chosen: number[] = []
    let rounds = 0
    for await (const { tokens } of run(() => continuationDrafter(promptIds.length, draft), request, signal)) {
      chosen.push(...tokens)
      rounds += 1
      if (chosen.some((token, at) => token !== draft[at])) break
    }
    const differs = chosen.findIndex((token, at) => token !== draft[at])
    // One token more than the continuation was asked for: that one always differs, unless the text ended with it.
    const acceptedTokens = differs < 0 ? chosen.length : differs
    const corrected = chosen.slice(0, acceptedTokens + 1)
    return {
      continuationTokens: draft.length,
      acceptedTokens,
      acceptLength: corrected.length,
      isAccepted: acceptedTokens === draft.length,
      text: tokenizer.decode(corrected, { skipSpecialTokens: true }),
      rounds,
    }
  }
}

/** Proposes what follows in the continuation, all of it at once. */
function continuationDrafter(promptTokens: number, continuation: readonly number[]): Drafter {
  return {
    ...withoutMemory,
    ahead: false,
    next: async (known, rows) =>
      rows.map((row) => {
        const at = known.rows.positionOf(row) + 1 - promptTokens
        return at < 0 ? [] : continuation.slice(at).map((token) => ({ token, topProbability: 1, others: [] }))
      }),
  }
}
