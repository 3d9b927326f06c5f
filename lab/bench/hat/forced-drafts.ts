import { adapterDrafter } from '../../../core/model/draft/adapter-drafter.ts'
import { adapterLookupDrafter } from '../../../core/model/draft/adapter-lookup-drafter.ts'
import { DeviceStream } from '../../../core/model/draft/device-stream.ts'
import type { DraftedToken, Drafter } from '../../../core/model/draft/drafter.ts'
import { openBundle } from '../../../core/model/engine/open-bundle.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { shareHead } from '../../../core/model/engine/shared-head.ts'
import type { RatedGuess } from '../../../core/policy/hat/draft-acceptance.ts'
import { sliceStates } from '../../../core/wire/protocol/states.ts'
import { type Answered, answerGreedily, type ReplayModel } from '../acceptance/replay.ts'
import { isLooping } from '../looping.ts'
import type { HatPrompt } from './workload.ts'

/** What a drafter proposes after one token of an answer, as long as drafts may be, whatever the LLM makes of it. */
export interface ForcedDraft {
  /** The guesses of each step of the drafter: one, or several of a lookup. */
  readonly steps: readonly (readonly RatedGuess[])[]
  /** Guesses before the first that is not the LLM's own token. */
  readonly accepted: number
}

export interface ForcedAnswer {
  /** After each token but the last. */
  readonly drafts: readonly ForcedDraft[]
  readonly looping: boolean
}

/** The drafts of the agent's first drafter for greedy answers, by teacher forcing: it reads the LLM's own tokens. */
export async function forceDrafts(
  { bundle, library, maxTokens, length }: { bundle: string; library: string | undefined; maxTokens: number; length: number },
  prompts: readonly HatPrompt[],
  progress: (line: string) => void,
): Promise<ForcedAnswer[]> {
  const parts = ['input', 'middle', 'output', 'adapter'] as const
  await using model = await openBundle(bundle, { library, parts: [...parts], threads: 1 })
  const { manifest } = model
  const head = shareHead(model.head(), manifest.dims.vocab)
  const all = { manifest, input: model.part('input'), middle: model.part('middle'), head, chain: model.chain({ cuts: 'half' }) }
  const answers: ForcedAnswer[] = []
  for (const [at, { ids }] of prompts.entries()) {
    progress(`drafts of every length: answer ${at + 1} of ${prompts.length}`)
    const drafter = adapterLookupDrafter(adapterDrafter(model.part('adapter'), head, greedy))
    answers.push(await forcedAnswer(drafter, all, await answerGreedily(all, ids, maxTokens), length))
    drafter.release()
  }
  return answers
}

async function forcedAnswer(
  drafter: Drafter,
  { manifest, input }: ReplayModel,
  { prompt, answer, deep }: Answered,
  length: number,
): Promise<ForcedAnswer> {
  const { hidden, contextLimit } = manifest.dims
  const stream = new DeviceStream(input, hidden, prompt.length)
  const drafts: ForcedDraft[] = []
  try {
    await stream.feed(prompt)
    await drafter.catchUp(stream)
    stream.deep.append(sliceStates(deep, 0, 1))
    for (const [at, pending] of answer.slice(0, -1).entries()) {
      const line = prompt.length + at + 1
      await stream.feed([pending])
      const steps = await longestDraft(drafter, stream, Math.min(length, contextLimit - line))
      const tokens = steps.flat().map(({ token }) => token)
      const wrong = tokens.findIndex((token, place) => token !== answer[at + 1 + place])
      const guesses = steps.map((step) => step.map(({ source, topProbability: probability }) => ({ source, probability })))
      drafts.push({ steps: guesses, accepted: wrong < 0 ? tokens.length : wrong })
      stream.gather(line, [])
      drafter.gather(line, [])
      stream.deep.append(sliceStates(deep, at + 1, at + 2))
    }
  } finally {
    stream.release()
  }
  return { drafts, looping: isLooping(answer) }
}

async function longestDraft(drafter: Drafter, stream: DeviceStream, length: number): Promise<(readonly DraftedToken[])[]> {
  const steps: (readonly DraftedToken[])[] = []
  for (let drafted = 0; drafted < length; ) {
    const [guesses = []] = await drafter.next(stream, [stream.rows.length - 1])
    const taken = guesses.slice(0, length - drafted)
    if (taken.length === 0) break
    await stream.feed(taken.map(({ token }) => token))
    steps.push(taken)
    drafted += taken.length
  }
  return steps
}
