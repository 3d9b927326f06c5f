import type { Random } from '../../../core/kit/base/random.ts'
import { type BootstrapInterval, bootstrapMean } from '../../../core/policy/estimate/bootstrap.ts'
import type { Arrival } from '../../cluster/relay.ts'

/** What an observer of an encrypted link has seen of an answer. */
export interface FrameTrace {
  /** Number of the prompt: what the observer wants to know. */
  readonly prompt: number
  readonly arrivals: readonly Arrival[]
  /** When the first token came, which the observer is assumed to know: earlier frames belong to the prompt. */
  readonly firstMs: number
}

/** Share of the answers whose prompt is found, with a 95 % interval over the prompts. */
export interface FoundPrompts extends BootstrapInterval {
  /** What a guess finds. */
  readonly chance: number
}

/** What the observer finds, by what they look at. */
export interface TraceFindings {
  readonly all: FoundPrompts
  /** Number, bytes and time of what came before the first token. */
  readonly prompt: FoundPrompts
  /** Number, bytes and time of what came after it. */
  readonly length: FoundPrompts
  /**
   * Sizes and gaps of the first frames after it, of the prompts whose answers all have as many, so that their number tells nothing. Null: fewer
   * than two prompts do.
   */
  readonly rounds: FoundPrompts | null
}

/** Frames in each direction that are looked at one by one. */
const firstFrames = 6
/** Of a feature that does not vary among the answers to a prompt: as a share of its deviation among all answers. */
const minDeviation = 0.01
/** A feature that is off by more standard deviations says no more: machines have hiccups. */
const maxDeviations = 10
/** Arrivals in one direction with no more ms between them are one frame. */
const frameGapMs = 2

interface Sample {
  readonly prompt: number
  readonly row: readonly number[]
}

/**
 * An observer with other answers to the same prompts, sent in the same way, takes an answer for one to the prompt whose answers are the nearest on
 * average, each feature over its deviation among answers to a prompt (Gaussian naive Bayes). Each answer in turn is left out and found.
 * @param traces at least two of each of several prompts
 */
export function findingsOf(traces: readonly FrameTrace[], random: Random): TraceFindings {
  const seen = traces.map((trace) => ({ prompt: trace.prompt, features: featuresOf(trace) }))
  const found = (some: typeof seen, rowOf: (features: Features) => readonly number[]) =>
    foundPrompts(
      some.map(({ prompt, features }) => ({ prompt, row: rowOf(features) })),
      random,
    )
  const short = new Set(seen.flatMap(({ prompt, features }) => (features.rounds.includes(undefined) ? [prompt] : [])))
  const long = seen.filter(({ prompt }) => !short.has(prompt))
  const known = (rounds: Features['rounds']) => rounds.map((value = 0) => value)
  return {
    all: found(seen, ({ prompt, length, rounds }) => [...prompt, ...length, ...known(rounds)]),
    prompt: found(seen, ({ prompt }) => prompt),
    length: found(seen, ({ length }) => length),
    rounds: new Set(long.map(({ prompt }) => prompt)).size < 2 ? null : found(long, ({ rounds }) => known(rounds)),
  }
}

function foundPrompts(samples: readonly Sample[], random: Random): FoundPrompts {
  const isFound = samples.map(
    (sample) =>
      nearestPrompt(
        sample,
        samples.filter((other) => other !== sample),
      ) === sample.prompt,
  )
  const prompts = [...new Set(samples.map(({ prompt }) => prompt))]
  const shares = prompts.map((one) => meanOf(isFound.filter((_, at) => samples[at]!.prompt === one).map(Number)))
  return { ...bootstrapMean(shares, random)!, chance: 1 / prompts.length }
}

function nearestPrompt({ row }: Sample, known: readonly Sample[]): number {
  const byPrompt = new Map<number, (readonly number[])[]>()
  for (const { prompt, row } of known) byPrompt.set(prompt, [...(byPrompt.get(prompt) ?? []), row])
  const distances = new Map([...byPrompt.keys()].map((prompt) => [prompt, 0]))
  for (const [axis, value] of row.entries()) {
    const columns = [...byPrompt].map(([prompt, rows]) => ({ prompt, values: rows.map((each) => each[axis]!) }))
    const within = Math.sqrt(meanOf(columns.flatMap(({ values }) => values.map((each) => (each - meanOf(values)) ** 2))))
    const deviation = within + minDeviation * deviationOf(columns.flatMap(({ values }) => values))
    if (deviation === 0) continue
    for (const { prompt, values } of columns) {
      const away = Math.min(maxDeviations, Math.abs(value - meanOf(values)) / deviation)
      distances.set(prompt, distances.get(prompt)! + away * away)
    }
  }
  return [...distances].reduce((best, each) => (each[1] < best[1] ? each : best))[0]
}

interface Features {
  readonly prompt: readonly number[]
  readonly length: readonly number[]
  /** Undefined: there are not as many frames. */
  readonly rounds: readonly (number | undefined)[]
}

function featuresOf({ arrivals, firstMs }: FrameTrace): Features {
  const frames = framesOf(arrivals)
  const of = (direction: Arrival['direction'], isAfter: boolean) =>
    frames.filter((frame) => frame.direction === direction && frame.atMs > firstMs === isAfter)
  const [upBefore, downBefore, up, down] = [of('up', false), of('down', false), of('up', true), of('down', true)]
  const bytesOf = (some: readonly Arrival[]) => some.reduce((sum, { bytes }) => sum + bytes, 0)
  const [beganMs, endedMs] = [frames.at(0)?.atMs ?? firstMs, frames.at(-1)?.atMs ?? firstMs]
  const first = Array.from({ length: firstFrames }, (_, at) => at)
  return {
    prompt: [upBefore.length, bytesOf(upBefore), bytesOf(downBefore), firstMs - beganMs],
    length: [up.length, bytesOf(up), bytesOf(down), endedMs - firstMs],
    rounds: [up, down].flatMap((some) => first.flatMap((at) => [some[at]?.bytes, gapBefore(some[at + 1], some[at])])),
  }
}

const gapBefore = (frame: Arrival | undefined, before: Arrival | undefined): number | undefined =>
  frame && before && frame.atMs - before.atMs

function framesOf(arrivals: readonly Arrival[]): Arrival[] {
  const frames: Arrival[] = []
  let lastMs = 0
  for (const arrival of arrivals) {
    const before = frames.at(-1)
    if (before?.direction === arrival.direction && arrival.atMs - lastMs <= frameGapMs)
      frames[frames.length - 1] = { ...before, bytes: before.bytes + arrival.bytes }
    else frames.push(arrival)
    lastMs = arrival.atMs
  }
  return frames
}

const meanOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length)

function deviationOf(values: readonly number[]): number {
  const mean = meanOf(values)
  return Math.sqrt(meanOf(values.map((value) => (value - mean) ** 2)))
}
