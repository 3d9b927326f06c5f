import { valueAt } from '../estimate/monotone-curve.ts'
import type { CloudSpeed, SmallModelSpeed } from './state.ts'

/** f(l): seconds until the LLM has written an answer of so many tokens (PICE §IV-A). */
export const answerS = ({ waitS, ttftS, tpotS }: CloudSpeed, tokens: number): number =>
  waitS + ttftS + Math.max(0, tokens - 1) * tpotS

/** p: throughput of so many sequences decoded together over that of one; constant beyond the measured ones, 1 without any. */
export function speedupOf({ parallel }: Pick<SmallModelSpeed, 'parallel'>, sequences: number): number {
  const knots = [{ x: 1, y: 1 }, ...parallel.filter(([n]) => n > 1).map(([x, y]) => ({ x, y }))]
  return valueAt(knots, Math.min(sequences, knots.at(-1)!.x))
}

/** c · f(l) / p: seconds that an open small model takes for so many tokens in equal sequences. */
export const expansionS = (speed: SmallModelSpeed, tokens: number, sequences: number): number =>
  speed.ttftS + (Math.max(0, tokens - 1) * speed.tpotS) / speedupOf(speed, sequences)

/** The same for sequences of these lengths: a packed step gets shorter as sequences end. */
export function packedS(speed: SmallModelSpeed, lengths: readonly number[]): number {
  const ascending = [...lengths].sort((a, b) => a - b)
  const stepS = (sequences: number) => (speed.tpotS * sequences) / speedupOf(speed, sequences)
  return ascending.reduce(
    (sum, length, at) => sum + (length - (ascending[at - 1] ?? 0)) * stepS(ascending.length - at),
    speed.ttftS,
  )
}
