import type { Arrival } from '../../cluster/relay.ts'

/** What an observer has seen of an answer, and what there is to find out. */
export interface FrameTrace {
  /** Number of the prompt. */
  readonly prompt: number
  readonly promptTokens: number
  readonly answerTokens: number
  /** Tokens of a round, on average. */
  readonly acceptLength: number
  readonly arrivals: readonly Arrival[]
}

/** What lengths and times tell. */
export interface TraceFindings {
  /** Share of the answers whose prompt is found, among all of them, by other answers to it. */
  readonly samePrompt: number
  /** Correlation of what is estimated, by answers to other prompts, with the truth; 0: nothing is known. */
  readonly promptTokens: number
  readonly answerTokens: number
  readonly acceptLength: number
}

/** Gaps that differ by as much, or more, differ as times can. */
const gapMs = 40
/** What lengths weigh beside times, which vary from answer to answer. */
const lengthWeight = 8

/**
 * An observer with recorded answers compares the sequence of lengths and times of another one with them (k nearest neighbours). They know when an answer
 * begins.
 * @param traces at least two of each prompt
 */
export function findingsOf(traces: readonly FrameTrace[]): TraceFindings {
  const steps = traces.map(({ arrivals }) => stepsOf(arrivals))
  const nearest = (at: number, others: (trace: FrameTrace) => boolean) => {
    let best: { readonly trace: FrameTrace; readonly distance: number } | undefined
    for (const [other, trace] of traces.entries()) {
      if (other === at || !others(trace)) continue
      const distance = distanceOf(steps[at]!, steps[other]!)
      if (!best || distance < best.distance) best = { trace, distance }
    }
    return best!.trace
  }
  const found = traces.filter(({ prompt }, at) => nearest(at, () => true).prompt === prompt)
  const estimates = traces.map(({ prompt }, at) => nearest(at, (trace) => trace.prompt !== prompt))
  const known = (figure: (trace: FrameTrace) => number) => Math.max(0, correlation(traces.map(figure), estimates.map(figure)))
  return {
    samePrompt: found.length / traces.length,
    promptTokens: known(({ promptTokens }) => promptTokens),
    answerTokens: known(({ answerTokens }) => answerTokens),
    acceptLength: known(({ acceptLength }) => acceptLength),
  }
}

interface Step {
  /** Negative: down. */
  readonly bytes: number
  readonly gapMs: number
}

const stepsOf = (arrivals: readonly Arrival[]): Step[] =>
  arrivals.map(({ direction, atMs, bytes }, at) => ({
    bytes: direction === 'up' ? bytes : -bytes,
    gapMs: at === 0 ? 0 : atMs - arrivals[at - 1]!.atMs,
  }))

function distanceOf(a: readonly Step[], b: readonly Step[]): number {
  let distance = Math.abs(a.length - b.length)
  for (let at = 0; at < Math.min(a.length, b.length); at++) {
    const [one, other] = [a[at]!, b[at]!]
    const larger = Math.max(Math.abs(one.bytes), Math.abs(other.bytes))
    distance += lengthWeight * Math.min(1, Math.abs(one.bytes - other.bytes) / larger)
    distance += Math.min(1, Math.abs(one.gapMs - other.gapMs) / gapMs)
  }
  return distance
}

/** Pearson's; 0 where one of them is constant. */
function correlation(a: readonly number[], b: readonly number[]): number {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
  const [meanA, meanB] = [mean(a), mean(b)]
  const product = (x: readonly number[], y: readonly number[], mx: number, my: number) =>
    x.reduce((sum, value, at) => sum + (value - mx) * (y[at]! - my), 0)
  const size = Math.sqrt(product(a, a, meanA, meanA) * product(b, b, meanB, meanB))
  return size === 0 ? 0 : product(a, b, meanA, meanB) / size
}
