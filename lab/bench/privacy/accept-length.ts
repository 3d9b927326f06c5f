import { adapterDrafter } from '../../../core/model/draft/adapter-drafter.ts'
import type { LoadedModel } from '../../../core/model/engine/open-model.ts'
import { greedy, likeliestTokens } from '../../../core/model/engine/sampler.ts'
import { shareHead } from '../../../core/model/engine/shared-head.ts'
import type { Sending } from '../../../core/model/privacy/observation.ts'
import { defaultDraftThreshold } from '../../../core/policy/hat/draft-gain.ts'
import { concatStates, type States, sliceStates } from '../../../core/wire/protocol/states.ts'
import { type Answered, replay } from '../acceptance/replay.ts'

const limits = { threshold: defaultDraftThreshold, draftLimit: 8 }

/**
 * Mean tokens of a round by the demonstration's adapter, where the middle part reads states so: of the greedy answers that it then
 * gives.
 * @param send what the middle part reads of the device's states
 */
export async function acceptLengthOf(
  model: LoadedModel,
  prompts: readonly (readonly number[])[],
  send: Sending,
  maxTokens: number,
): Promise<number> {
  const { manifest } = model
  const head = shareHead(model.head(), manifest.dims.vocab)
  const device = { manifest, input: model.part('input'), head }
  let [tokens, rounds] = [0, 0]
  for (const prompt of prompts) {
    const answered = await answerThrough(model, prompt, send, maxTokens)
    const drafter = adapterDrafter(model.part('adapter'), head, greedy)
    for (const { accepted } of await replay(drafter, device, answered, limits)) {
      tokens += accepted + 1
      rounds += 1
    }
  }
  return rounds === 0 ? 1 : tokens / rounds
}

async function answerThrough(model: LoadedModel, prompt: readonly number[], send: Sending, maxTokens: number): Promise<Answered> {
  const { dims, tokens } = model.manifest
  const [input, middle] = [model.part('input'), model.part('middle')]
  const [shallow, deep] = [input.createSequence(), middle.createSequence()]
  const answer: number[] = []
  const rows: States[] = []
  try {
    const step = async (ids: readonly number[], base: number) => {
      const [states] = await input.step([{ sequence: shallow, ids, select: 'all' }])
      const [last] = await middle.step([{ sequence: deep, states: send(states!, base), select: 'last' }])
      rows.push(sliceStates(last!, 0, 1))
      return likeliestTokens(await model.head().logits(last!), 1)[0]!
    }
    for (let next = await step(prompt, 0); ; next = await step([next], prompt.length + answer.length - 1)) {
      answer.push(next)
      if (answer.length >= maxTokens || tokens.eos.includes(next)) break
    }
    await step([answer.at(-1)!], prompt.length + answer.length - 1)
    return { prompt, answer, maxTokens, deep: concatStates(rows, dims.hidden) }
  } finally {
    shallow.release()
    deep.release()
  }
}
