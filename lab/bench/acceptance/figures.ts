import type { Round } from './replay.ts'

/** The drafters compared, in the order in which they are shown. */
export const drafters = ['adapter+lookup', 'adapter', 'adapter-paper', 'lookup', 'medusa', 'none'] as const
export type DrafterKind = (typeof drafters)[number]

/** One drafter on one answer. */
export interface AcceptanceRun {
  readonly drafter: DrafterKind
  readonly id: string
  readonly task: string
  readonly promptTokens: number
  readonly answerTokens: number
  /** The answer repeats itself: more than half of its 4-grams have occurred in it before. */
  readonly looping: boolean
  /** All rounds' drafted tokens, and those of them that were kept. */
  readonly drafted: number
  readonly accepted: number
  /** Each round's longest path and how much of it was kept: '3/2 8/8 1/0'. */
  readonly rounds: string
}

export function runOf(
  of: Pick<AcceptanceRun, 'drafter' | 'id' | 'task' | 'promptTokens' | 'answerTokens' | 'looping'>,
  rounds: readonly Round[],
): AcceptanceRun {
  const sum = (what: 'drafted' | 'accepted') => rounds.reduce((total, round) => total + round[what], 0)
  const written = rounds.map(({ longest, accepted }) => `${longest}/${accepted}`).join(' ')
  return { ...of, drafted: sum('drafted'), accepted: sum('accepted'), rounds: written }
}

/** Beside `longest` and `accepted`: where the round's pending token stood, and the tokens that the round gave. */
interface PlacedRound extends Pick<Round, 'longest' | 'accepted'> {
  readonly position: number
  readonly tokens: number
}

function roundsOf({ rounds, promptTokens, answerTokens }: AcceptanceRun): PlacedRound[] {
  let at = 0
  return rounds
    .split(' ')
    .filter((round) => round !== '')
    .map((round) => {
      const [longest = 0, accepted = 0] = round.split('/').map(Number)
      // The bonus behind an end of text is no part of the answer.
      const tokens = Math.min(accepted + 1, answerTokens - 1 - at)
      at += tokens
      return { longest, accepted, tokens, position: promptTokens + at - tokens }
    })
}

/** Tokens per verification, the bonus included; null where nothing was verified. */
export function acceptLength(runs: readonly AcceptanceRun[]): number | null {
  return meanTokens(runs.flatMap(roundsOf))
}

function meanTokens(rounds: readonly PlacedRound[]): number | null {
  return rounds.length === 0 ? null : rounds.reduce((sum, { tokens }) => sum + tokens, 0) / rounds.length
}

/** How many drafts reach their n-th token, for n = 1, 2, …, and which share of those had it accepted. */
export function ratesByDraftPosition(runs: readonly AcceptanceRun[]): { position: number; rate: number; drafts: number }[] {
  const rounds = runs.flatMap(roundsOf)
  const longest = rounds.reduce((most, round) => Math.max(most, round.longest), 0)
  return Array.from({ length: longest }, (_, at) => {
    const reaching = rounds.filter((round) => round.longest > at)
    const kept = reaching.filter(({ accepted }) => accepted > at)
    return { position: at + 1, rate: kept.length / reaching.length, drafts: reaching.length }
  })
}

/** Where buckets of positions begin. */
const bucketStarts = [0, 128, 256, 512, 1024, 2048, 4096] as const

/** Accept length by where in the context the round's first token stands; buckets without rounds are left out. */
export function acceptLengthsByPosition(
  runs: readonly AcceptanceRun[],
): { from: number; to: number; acceptLength: number; rounds: number }[] {
  const rounds = runs.flatMap(roundsOf)
  return bucketStarts.flatMap((from, at) => {
    const to = bucketStarts[at + 1] ?? Number.POSITIVE_INFINITY
    const own = rounds.filter(({ position }) => position >= from && position < to)
    const mean = meanTokens(own)
    return mean === null ? [] : [{ from, to, acceptLength: mean, rounds: own.length }]
  })
}

/** As scripts/train/evaluate.py counts: more than half of the answer's 4-grams have occurred in it before. */
export function isLooping(answer: readonly number[]): boolean {
  const grams = Array.from({ length: Math.max(0, answer.length - 3) }, (_, at) => answer.slice(at, at + 4).join())
  return grams.length - new Set(grams).size > grams.length / 2
}
