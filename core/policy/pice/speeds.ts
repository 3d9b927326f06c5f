import { speedupAt } from './small-model-speed.ts'
import type { CloudSpeed, SmallModelSpeed } from './state.ts'

/** f(l): seconds until the LLM has written an answer of so many tokens (PICE §IV-A). */
export const answerS = ({ waitS, ttftS, tpotS }: CloudSpeed, tokens: number): number =>
  waitS + ttftS + Math.max(0, tokens - 1) * tpotS

/** c · f(l) / p: seconds that an open small model takes for so many tokens in equal sequences. */
export const expansionS = (speed: SmallModelSpeed, tokens: number, sequences: number): number =>
  speed.ttftS + (Math.max(0, tokens - 1) * speed.tpotS) / speedupAt(speed.parallel, sequences)

/** The same for sequences of these lengths: a packed step gets shorter as sequences end. */
export function packedS(speed: SmallModelSpeed, lengths: readonly number[]): number {
  const ascending = [...lengths].sort((a, b) => a - b)
  const stepS = (sequences: number) => (speed.tpotS * sequences) / speedupAt(speed.parallel, sequences)
  return ascending.reduce(
    (sum, length, at) => sum + (length - (ascending[at - 1] ?? 0)) * stepS(ascending.length - at),
    speed.ttftS,
  )
}
