import type { ServingSpeeds, StreamState } from '../serving/policy.ts'

/** Share of the engine's time that computing again what was preempted may take, in the long run. */
const share = 0.05
/** Time whose share may be saved up for a burst of requests. */
const savedS = 10

/**
 * Engine seconds that a preempted stream, or one that would be, takes from all others before it goes on, because the slow tier lacks
 * its rows; 0 where they can be loaded, or nothing has been measured.
 */
export function recomputeS(stream: StreamState, { prefillSPerRow = 0 }: ServingSpeeds): number {
  const { contextLength, waitingRows, resumptions, reader } = stream
  // The rows of a prompt that has not had its first token are computed for the first time.
  const lost = reader?.sent ? waitingRows : 0
  const rows = resumptions.includes('load') ? lost : contextLength + lost
  return rows > 1 ? rows * prefillSPerRow : 0
}

/**
 * How much of the engine's time recomputations may take: a share of the time that has passed. A load takes the engine nothing; a
 * recomputation takes it from every other request, which Andes bounds by how often, and TokenFlow's Eq. 3 charges to one request alone.
 * Without a bound, requests that take turns compute each other's prompts again, and generate little more. Mutable.
 */
export class RecomputeBudget {
  #creditS = 0
  #atMs: number | undefined

  /** Negative: more has been computed again than was to be. */
  get creditS(): number {
    return this.#creditS
  }

  accrue(nowMs: number): void {
    const elapsedS = (nowMs - (this.#atMs ?? nowMs)) / 1_000
    this.#atMs = nowMs
    this.#creditS = Math.min(share * savedS, this.#creditS + share * elapsedS)
  }

  spend(seconds: number): void {
    this.#creditS -= seconds
  }
}
