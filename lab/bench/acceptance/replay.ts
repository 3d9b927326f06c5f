import { answerByHat } from '../../../agent/hat/session.ts'
import type { LinkSession } from '../../../agent/link/link-session.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import type { Manifest } from '../../../core/model/bundle/manifest.ts'
import { DeviceStream } from '../../../core/model/draft/device-stream.ts'
import type { Drafter, TreeDrafter } from '../../../core/model/draft/drafter.ts'
import type { Chain, Part } from '../../../core/model/engine/contract.ts'
import { referenceAnswer } from '../../../core/model/engine/reference.ts'
import { stepOnce } from '../../../core/model/engine/require-finite.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import type { SharedHead } from '../../../core/model/engine/shared-head.ts'
import { LinkRates } from '../../../core/policy/estimate/link-rates.ts'
import { DeviceSpeed } from '../../../core/policy/hat/device-speed.ts'
import { chainOf, depthOf } from '../../../core/policy/hat/draft-tree.ts'
import { concatStates, type States, sliceStates } from '../../../core/wire/protocol/states.ts'

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
  readonly head: SharedHead
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

/** A HAT session whose bridge has computed the answer before: its rounds, with no draft ahead of a verification. */
export async function replay(
  drafter: Drafter | TreeDrafter,
  { manifest, input, head }: Pick<ReplayModel, 'manifest' | 'input' | 'head'>,
  answered: Answered,
  { threshold, draftLimit }: ReplayLimits,
): Promise<Round[]> {
  const { dims, tokens } = manifest
  const { prompt, maxTokens } = answered
  const rounds: Round[] = []
  let longest = 0
  const measured: Drafter | TreeDrafter =
    'tree' in drafter
      ? {
          ...drafter,
          async tree(known, maxDepth) {
            const tree = await drafter.tree(known, maxDepth)
            longest = Math.max(0, ...tree.tokens.map((_, node) => depthOf(tree, node)))
            return tree
          },
        }
      : drafter
  const options = {
    open: async () => answeredSession(answered),
    patienceMs: 0,
    clock: systemClock,
    wire: 'fp16',
    padding: false,
    prefill: 'chunked',
    prefixes: undefined,
    dims,
    input,
    head,
    speed: new DeviceSpeed(),
    createDrafter: () => measured,
    threshold,
    // A tree has a size of its own.
    draftLimit: 'tree' in drafter ? Number.POSITIVE_INFINITY : draftLimit,
    draftAhead: false,
  } as const
  const request = { client: '', prompt, maxTokens, sampling: greedy, eos: tokens.eos }
  for await (const { drafted, accepted, figures } of answerByHat(options, request, new AbortController().signal)) {
    if (figures().rounds > 0) rounds.push({ drafted, longest: 'tree' in drafter ? longest : drafted, accepted })
    longest = 0
  }
  return rounds
}

/** The bridge's end of an answer that it has computed before: the deep rows of positions, whatever was drafted for them. */
function answeredSession({ prompt, deep }: Answered): LinkSession {
  const rowAt = (position: number) => {
    // Drafts may go on after the answer's end.
    const row = Math.min(position - prompt.length + 1, deep.rows - 1)
    return sliceStates(deep, row, row + 1)
  }
  return {
    bridge: '',
    held: 0,
    moved: false,
    chunkTokens: Number.POSITIVE_INFINITY,
    frameTokens: Number.POSITIVE_INFINITY,
    draftLimit: Number.POSITIVE_INFINITY,
    bytesUp: 0,
    bytesDown: 0,
    wire: 'fp16',
    rates: new LinkRates(),
    report() {},
    close() {},
    closeAndCache: async () => undefined,
    async exchange(base, { rows, width }, want, form) {
      const parents = form?.tree?.parents ?? []
      const tree = parents.length > 0 ? { tokens: parents, parents } : chainOf(Array.from({ length: rows }, () => 0))
      const wanted = Array.from({ length: want }, (_, at) => rowAt(base - 1 + depthOf(tree, rows - want + at)))
      return { kind: 'deep', states: concatStates(wanted, width), queueMs: 0, computeMs: 0 }
    },
  }
}
