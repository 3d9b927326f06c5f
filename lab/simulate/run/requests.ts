import type { Random } from '../../../core/kit/base/random.ts'
import { type Distribution, draw } from '../scenario/distribution.ts'
import { partName } from '../scenario/mode-name.ts'
import type { Workload } from '../scenario/scenario.ts'
import type { TracedRequest } from '../traces/request-trace.ts'
import type { RequestedAnswer } from '../world/answer-record.ts'
import type { Askers } from './askers.ts'

interface RequestSource {
  /** Of the file that the arrivals name. */
  readonly trace: readonly TracedRequest[] | undefined
  /** Indices of a group's devices; without a name, of all. */
  devicesOf(group?: string): readonly number[]
  random(purpose: string): Random
  readonly asking: Askers
}

/** The workload's requests in the order of their arrival, each made when it is asked for. */
export function* requestsOf(
  workload: Workload,
  { trace, devicesOf, random, asking }: RequestSource,
): Generator<RequestedAnswer, void> {
  const chance = { lengths: random('lengths'), modes: random('modes'), readers: random('readers') }
  const askers = workload.modes.map(({ groups }) => (groups ? groups.flatMap(devicesOf) : devicesOf()))
  const names = workload.modes.map(partName)
  let id = 0
  for (const arrival of arrivalsOf(workload, trace, random('arrivals'))) {
    if (id === workload.requests) return
    const named = arrival.part === undefined ? -1 : names.indexOf(arrival.part)
    const chosen = named < 0 ? choose(workload.modes, chance.modes) : named
    const part = workload.modes[chosen]!
    const devices = askers[chosen]!
    const lengthOf = (given: Distribution | undefined, recorded: number | undefined) =>
      Math.max(1, Math.round(given === undefined ? (recorded ?? 1) : draw(given, chance.lengths)))
    const promptTokens = lengthOf(part.promptTokens ?? workload.promptTokens, arrival.promptTokens)
    const outputTokens = lengthOf(part.outputTokens ?? workload.outputTokens, arrival.outputTokens)
    const shared = Math.max(arrival.sharedTokens ?? 0, Math.round(draw(workload.sharedTokens, chance.lengths)))
    yield {
      id: id++,
      atMs: arrival.atMs,
      mode: part.mode,
      part: names[chosen]!,
      device: devices.length === 0 ? undefined : asking.next(devices),
      promptTokens,
      outputTokens: Math.min(outputTokens, workload.maxOutputTokens),
      sharedTokens: Math.min(shared, promptTokens - 1),
      tokensPerS: workload.readers[choose(workload.readers, chance.readers)]!.tokensPerS,
    }
  }
}

type Arrival = Pick<TracedRequest, 'atMs'> & Partial<TracedRequest> & { readonly part?: string | undefined }

function* arrivalsOf({ arrivals }: Workload, trace: readonly TracedRequest[] | undefined, random: Random): Generator<Arrival> {
  switch (arrivals.kind) {
    case 'burst':
      for (;;) yield { atMs: 1_000 * arrivals.atS }
    case 'poisson': {
      for (let atMs = 0; ; ) {
        atMs -= (Math.log(1 - random.next()) * 1_000) / arrivals.perS
        yield { atMs }
      }
    }
    case 'list': {
      for (const { atS, ...request } of arrivals.requests) yield { atMs: 1_000 * atS, ...request }
      return
    }
    case 'trace': {
      const { skipS, speed, lengths } = arrivals
      for (const { atMs, promptTokens, outputTokens, sharedTokens } of trace ?? []) {
        if (atMs < 1_000 * skipS) continue
        yield {
          atMs: (atMs - 1_000 * skipS) / speed,
          promptTokens: promptTokens * lengths,
          outputTokens: outputTokens * lengths,
          sharedTokens: Math.round(sharedTokens * lengths),
        }
      }
    }
  }
}

/** An index, by shares that need not sum to 1. */
function choose(parts: readonly { readonly share: number }[], random: Random): number {
  if (parts.length === 1) return 0
  let left = random.next() * parts.reduce((sum, { share }) => sum + share, 0)
  const at = parts.findIndex(({ share }) => {
    left -= share
    return left < 0
  })
  return at < 0 ? parts.length - 1 : at
}
