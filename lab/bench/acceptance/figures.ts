import type { Round } from './replay.ts'

/** The drafters, in the order of tables and figures. */
export const drafters = ['adapter+lookup', 'adapter', 'adapter-paper', 'lookup', 'medusa', 'none'] as const
export type DrafterKind = (typeof drafters)[number]

/** One drafter's drafts for one answer. */
export interface AcceptanceRun {
  readonly drafter: DrafterKind
  readonly id: string
  readonly task: string
  readonly promptTokens: number
  readonly answerTokens: number
  /** The answer repeats itself: more than half of its 4-grams have occurred in it before. */
  readonly looping: boolean
  /** Drafted and accepted tokens of all rounds. */
  readonly drafted: number
  readonly accepted: number
  /** Per round the tokens of its longest path and the accepted ones: '3/2 8/8 1/0'. */
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

/** A round with the position of its first token in the context, and the number of tokens it gave. */
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
      // The bonus token after an end-of-text token does not belong to the answer.
      const tokens = Math.min(accepted + 1, answerTokens - 1 - at)
      at += tokens
      return { longest, accepted, tokens, position: promptTokens + at - tokens }
    })
}

/** Tokens per verification, bonus included; null where nothing was verified. */
export function acceptLength(runs: readonly AcceptanceRun[]): number | null {
  return meanTokens(runs.flatMap(roundsOf))
}

function meanTokens(rounds: readonly PlacedRound[]): number | null {
  return rounds.length === 0 ? null : rounds.reduce((sum, { tokens }) => sum + tokens, 0) / rounds.length
}

/** For n = 1, 2, …: how many drafts have an n-th token, and the share of them whose n-th token was accepted. */
export function ratesByDraftPosition(runs: readonly AcceptanceRun[]): { position: number; rate: number; drafts: number }[] {
  const rounds = runs.flatMap(roundsOf)
  const longest = rounds.reduce((max, round) => Math.max(max, round.longest), 0)
  return Array.from({ length: longest }, (_, at) => {
    const reaching = rounds.filter((round) => round.longest > at)
    const accepting = reaching.filter(({ accepted }) => accepted > at)
    return { position: at + 1, rate: accepting.length / reaching.length, drafts: reaching.length }
  })
}

/** First positions of the buckets. */
const bucketStarts = [0, 128, 256, 512, 1024, 2048, 4096] as const

/** Accept length by the position of a round's first token in the context, without empty buckets. */
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
