import { type Random, seededRandom } from '../../../core/base/random.ts'

/** What is done to the answer's link or bridge, in the middle of the answer. */
export const faultKinds = ['kill', 'hang', 'cut', 'stall', 'garbage'] as const
export type FaultKind = (typeof faultKinds)[number]

export const faultNames: Readonly<Record<FaultKind, string>> = {
  kill: 'bridge process killed (SIGKILL), then started again',
  hang: 'bridge process stopped (SIGSTOP) until the answer has ended',
  cut: 'socket cut',
  stall: 'socket silent both ways, and open',
  garbage: 'random bytes in the stream to the device',
}

/** What the neighbours at the same bridge cannot but notice. */
export const hitsAll: ReadonlySet<FaultKind> = new Set(['kill', 'hang'])

export interface Question {
  readonly prompt: readonly number[]
  readonly temperature: number
  /** Of the sampling. */
  readonly seed: number
}

export interface PlannedRun {
  readonly kind: FaultKind
  readonly question: Question
  /** Share of the answer's text that has come when the fault does; 0: it comes in prefill. */
  readonly moment: number
  /** What is injected by `garbage`. */
  readonly noise: Uint8Array
}

const longestPrompt = 96
const longestNoise = 200
/** Of the faults those that come before the first token. */
const inPrefill = 0.2
/** Later than after this share of the text the last frame may have been answered. */
const latest = 0.8

/** Runs at random, all of them told by the seed; of every five in a row each has another kind of fault. */
export function planRuns(runs: number, seed: number, vocab: number): PlannedRun[] {
  const random = seededRandom(seed)
  let kinds: FaultKind[] = []
  return Array.from({ length: runs }, () => {
    if (kinds.length === 0) kinds = shuffled(faultKinds, random)
    return {
      kind: kinds.pop()!,
      question: drawQuestion(random, vocab),
      moment: random.next() < inPrefill ? 0 : latest * random.next(),
      noise: Uint8Array.from({ length: 1 + below(longestNoise, random) }, () => below(256, random)),
    }
  })
}

/** Half of them greedy. */
export function drawQuestion(random: Random, vocab: number): Question {
  return {
    prompt: Array.from({ length: 1 + below(longestPrompt, random) }, () => below(vocab, random)),
    temperature: random.next() < 0.5 ? 0 : 0.8,
    seed: below(2 ** 31, random),
  }
}

const below = (bound: number, random: Random) => Math.floor(random.next() * bound)

function shuffled<T>(all: readonly T[], random: Random): T[] {
  const rest = [...all]
  return all.map(() => rest.splice(below(rest.length, random), 1)[0]!)
}
