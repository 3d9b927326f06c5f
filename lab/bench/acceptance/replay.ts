import { DeviceStream } from '../../../core/draft/device-stream.ts'
import type { Drafter, TreeDrafter } from '../../../core/draft/drafter.ts'
import { StateRows } from '../../../core/draft/state-rows.ts'
import type { Chain, Part } from '../../../core/engine/contract.ts'
import { referenceAnswer } from '../../../core/engine/reference.ts'
import { stepOnce } from '../../../core/engine/require-finite.ts'
import { greedy } from '../../../core/engine/sampler.ts'
import type { Manifest } from '../../../core/model/manifest.ts'
import { acceptDraft } from '../../../core/policy/hat/accept-draft.ts'
import { maxDraftTokens } from '../../../core/policy/hat/draft-stop.ts'
import { chainOf, depthOf, root } from '../../../core/policy/hat/draft-tree.ts'
import { type States, sliceStates } from '../../../core/protocol/states.ts'
import { draftTokens } from './draft-tokens.ts'

/** A prompt with the LLM's greedy answer. */
export interface Answered {
  readonly prompt: readonly number[]
  /** An end-of-text token included. */
  readonly answer: readonly number[]
  /** The limit that the answer was generated with. */
  readonly maxTokens: number
  /** The middle part's rows from the prompt's last position to the answer's last. */
  readonly deep: States
}

/** One verification. */
export interface Round {
  /** Drafted tokens; of a tree, all nodes. */
  readonly drafted: number
  /** Drafted tokens of the longest path; equal to `drafted` where nothing branches. */
  readonly longest: number
  readonly accepted: number
}

export interface ReplayModel {
  readonly manifest: Manifest
  readonly input: Part
  readonly middle: Part
  /** The whole model with the wire's rounding. */
  readonly chain: Chain
}

export interface ReplayLimits {
  /** η of HAT Eq. 5. */
  readonly threshold: number
  readonly draftLimit: number
}

/** @param maxTokens limit of the answer; the context may end it earlier */
export async function answerGreedily(model: ReplayModel, prompt: readonly number[], maxTokens: number): Promise<Answered> {
  const { dims, tokens } = model.manifest
  const limit = Math.min(maxTokens, dims.contextLimit - prompt.length)
  const answer = await referenceAnswer(model.chain, prompt, greedy, limit, tokens.eos)
  return { prompt, answer, maxTokens: limit, deep: await deepRows(model, prompt, answer) }
}

async function deepRows({ input, middle, manifest }: ReplayModel, prompt: readonly number[], answer: readonly number[]) {
  const { hidden } = manifest.dims
  const stream = new DeviceStream(input, hidden, prompt.length)
  const sequence = middle.createSequence()
  try {
    await stream.feed([...prompt, ...answer])
    const states = stream.shallow.slice(0, stream.shallow.length)
    const select = Array.from({ length: answer.length + 1 }, (_, at) => prompt.length - 1 + at)
    return await stepOnce(middle, { sequence, states, select })
  } finally {
    stream.release()
    sequence.release()
  }
}

/** Drafts round by round as a HAT session does, and verifies each draft against the finished answer. */
export async function replay(
  drafter: Drafter,
  { manifest, input }: ReplayModel,
  { prompt, answer, maxTokens, deep }: Answered,
  { threshold, draftLimit }: ReplayLimits,
): Promise<Round[]> {
  const { dims, tokens } = manifest
  const rounds: Round[] = []
  const stream = new DeviceStream(input, dims.hidden, prompt.length)
  const feed = (fed: readonly number[]) => stream.feed(fed)
  try {
    await feed(prompt)
    await drafter.catchUp(stream)
    stream.deep.append(sliceStates(deep, 0, 1))
    for (let at = 0; at < answer.length - 1; ) {
      const position = prompt.length + at
      await feed([answer[at]!])
      const limit = maxDraftTokens(draftLimit, maxTokens - at - 1, position, dims.contextLimit)
      const drafted = await draftTokens(drafter, stream, feed, { threshold, limit }, tokens.eos)
      const { path } = acceptDraft(chainOf(drafted), (node) => choiceAt(answer, at + 2 + node))
      const accepted = path.length
      stream.deep.append(sliceStates(deep, at + 1, at + 2 + accepted))
      stream.gather(position + 1 + accepted, [])
      drafter.gather(position + 1 + accepted, [])
      rounds.push({ drafted: drafted.length, longest: drafted.length, accepted })
      at += accepted + 1
    }
    return rounds
  } finally {
    stream.release()
    drafter.release()
  }
}

/** The same for trees, which are no deeper than the rest of the answer can be long. */
export async function replayTrees(drafter: TreeDrafter, { manifest }: ReplayModel, answered: Answered): Promise<Round[]> {
  const { prompt, answer, maxTokens } = answered
  const rounds: Round[] = []
  const deep = new StateRows(manifest.dims.hidden, prompt.length - 1)
  deep.append(sliceStates(answered.deep, 0, 1))
  for (let at = 0; at < answer.length - 1; ) {
    const deepest = maxDraftTokens(Number.POSITIVE_INFINITY, maxTokens - at - 1, prompt.length + at, manifest.dims.contextLimit)
    const tree = await drafter.tree({ deep }, deepest)
    const depths = tree.tokens.map((_, node) => depthOf(tree, node))
    const choiceAfter = (node: number) => choiceAt(answer, at + 1 + (node === root ? 0 : depths[node]!))
    const { path } = acceptDraft(tree, choiceAfter)
    deep.append(sliceStates(answered.deep, at + 1, at + 2 + path.length))
    rounds.push({ drafted: tree.tokens.length, longest: Math.max(0, ...depths), accepted: path.length })
    at += path.length + 1
  }
  return rounds
}

/** The LLM's token at this place of the answer; −1, which no draft equals, after its end. */
function choiceAt(answer: readonly number[], at: number): number {
  return answer[at] ?? -1
}
