import { type Random, seededRandom } from '../../../core/kit/base/random.ts'
import { shuffled } from '../shuffled.ts'

/** Kinds of faults of the link or bridge that carries an answer. */
export const faultKinds = ['kill', 'hang', 'cut', 'stall', 'garbage'] as const
export type FaultKind = (typeof faultKinds)[number]

export const faultNames: Readonly<Record<FaultKind, string>> = {
  kill: 'bridge process killed (SIGKILL), then started again',
  hang: 'bridge process stopped (SIGSTOP) until the answer has ended',
  cut: 'socket cut',
  stall: 'socket open, but silent in both directions',
  garbage: 'random bytes in the stream to the device',
}

/** Faults of the whole bridge: its neighbours have to move too. */
export const bridgeFaults: ReadonlySet<FaultKind> = new Set(['kill', 'hang'])

export interface Question {
  readonly prompt: readonly number[]
  readonly temperature: number
  readonly seed: number
}

export interface PlannedRun {
  readonly kind: FaultKind
  readonly question: Question
  /** Share of the text delivered before the fault, 0..1; 0: the fault comes in prefill. */
  readonly moment: number
  /** Bytes that `garbage` injects. */
  readonly noise: Uint8Array
}

const maxPromptTokens = 96
const maxNoiseBytes = 200
/** Share of the faults that come before the first token. */
const prefillShare = 0.2
/** After a later moment than this the bridge may have answered the last frame. */
const maxMoment = 0.8

/** Random runs that follow from the seed. Every five in a row hold one fault of each kind. */
export function planRuns(runs: number, seed: number, vocab: number): PlannedRun[] {
  const random = seededRandom(seed)
  let kinds: FaultKind[] = []
  return Array.from({ length: runs }, () => {
    if (kinds.length === 0) kinds = shuffled(faultKinds, random)
    return {
      kind: kinds.pop()!,
      question: drawQuestion(random, vocab),
      moment: random.next() < prefillShare ? 0 : maxMoment * random.next(),
      noise: Uint8Array.from({ length: 1 + below(maxNoiseBytes, random) }, () => below(256, random)),
    }
  })
}

/** Half of the questions are greedy. */
export function drawQuestion(random: Random, vocab: number): Question {
  return {
    prompt: Array.from({ length: 1 + below(maxPromptTokens, random) }, () => below(vocab, random)),
    temperature: random.next() < 0.5 ? 0 : 0.8,
    seed: below(2 ** 31, random),
  }
}

const below = (bound: number, random: Random) => Math.floor(random.next() * bound)
