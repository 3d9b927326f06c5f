import { seededRandom } from '../../../core/kit/base/random.ts'
import type { ModeName } from '../scenario/mode-name.ts'
import { Scenario } from '../scenario/scenario.ts'
import { type Method, splitting } from './methods.ts'
import type { DayRequest, Kind } from './trace-day.ts'

/** Prices of GPT-4o-mini, per token: what DiSCo weighs against a device's energy, and what answers are said to cost. */
export const dollarsPerToken = { prompt: 0.15e-6, output: 0.6e-6 }
/** Of a household in the United States, 2024 (EIA). */
export const dollarsPerKwh = 0.165
/** The cloud's model on one GPU. */
export const cloud = { model: 'qwen2.5-32b', gpu: 'a100-80' } as const
/** Readers, half of them each. */
const readers = [5, 10].map((tokensPerS) => ({ tokensPerS, share: 1 }))
/** DiSCo's budget: of the prompt tokens, that the cloud may process. */
const serverShare = 0.9
/** Host memory for preempted KV, per GPU. */
const hostBytes = 128e9

/**
 * Links: the course of the net-lumos5g traces. Means of phones: medians of net-speedtest-5g (LTE and 5G low band); of boards: HAT's
 * WiFi (5 to 10 MB/s up, 10 to 15 down).
 */
const links = {
  wifi: { trace: 'net-lumos5g/5G', up: 7.5e6, down: 12.5e6, rttMs: 10 },
  fiveG: { trace: 'net-lumos5g/5G', up: 9.1e6, down: 14.4e6, rttMs: 58 },
  lte: { trace: 'net-lumos5g/4G', up: 3.9e6, down: 14.8e6, rttMs: 90 },
}

/** Shares of the fleet. Small models: the largest that a device decodes at 10 tokens/s or more, phones' as DiSCo measured them. */
const groups = [
  { name: 'agx-orin', board: 'agx-orin-32', share: 0.05, link: links.wifi, smallModels: ['qwen2.5-7b'] },
  { name: 'orin-nx', board: 'orin-nx', share: 0.25, link: links.wifi, smallModels: ['qwen2.5-3b'] },
  { name: 'orin-nano', board: 'orin-nano', share: 0.3, link: links.wifi, smallModels: ['qwen2.5-1.5b'] },
  { name: 'pixel', board: 'pixel-7-pro', share: 0.2, link: links.lte, smallModels: ['bloom-1.1b'] },
  { name: 'xiaomi', board: 'xiaomi-14', share: 0.2, link: links.fiveG, smallModels: ['qwen1.5-0.5b'] },
] as const

const others: readonly string[] = ['orin-nano', 'pixel', 'xiaomi']
/** Of what is not private. */
const othersShare = 0.7
/** Boards on mains expand sketches. */
const helpers: readonly string[] = ['agx-orin', 'orin-nx', 'orin-nano']
const ofOthers = (kind: Kind) => `${kind}, small devices`

export interface FleetSize {
  readonly devices: number
  /** GPUs of the cloud, each with the whole model. */
  readonly gpus: number
}

export interface RunConditions {
  readonly seed?: number
  /** Seconds in which requests come that count. Absent: all count. */
  readonly counted?: { readonly fromS: number; readonly untilS: number }
  /** False: links have constant rates, for which no traces are needed. */
  readonly withTraces?: boolean
}

/** @param requests of a trace day */
export function fleetScenario(
  method: Method,
  requests: readonly DayRequest[],
  { devices, gpus }: FleetSize,
  { seed = 1, counted, withTraces = true }: RunConditions = {},
): Scenario {
  const rate = (trace: string, meanBytesPerS: number) => (withTraces ? { trace, meanBytesPerS } : meanBytesPerS)
  return Scenario.parse({
    name: method.name,
    seed,
    ...(method.needsCloud && {
      cloud: { ...cloud, replicas: gpus, policy: method.policy, slowBytes: hostBytes, dollarsPerToken },
    }),
    devices: groups.map(({ name, board, share, link: { trace, up, down, rttMs }, smallModels }) => ({
      name,
      board,
      count: Math.max(1, Math.round(share * devices)),
      smallModels,
      link: { up: rate(trace, up), down: rate(trace, down), rttMs },
    })),
    policies: {
      hat: method.hat,
      pice: { helpers, ...method.pice },
      disco: { learn: 'group', share: serverShare, ...method.disco },
    },
    workload: {
      requests: requests.length,
      arrivals: { kind: 'list', requests: spread(requests, seed) },
      readers,
      ...(counted && { counted }),
      modes: partsOf(method),
    },
  })
}

/** Decides which are asked by small devices. */
function spread(requests: readonly DayRequest[], seed: number) {
  const random = seededRandom(seed)
  return requests.map((request) => {
    const isOther = random.next() < othersShare && request.part !== 'private'
    return { ...request, part: isOther ? ofOthers(request.part) : request.part }
  })
}

/** Each kind of requests, with the mode by which its devices are answered. */
function partsOf({ modes }: Method) {
  return (Object.entries(modes) as [Kind, ModeName][]).flatMap(([kind, mode]) => [
    { name: kind, mode, groups: splitting },
    ...(kind === 'private' ? [] : [{ name: ofOthers(kind), mode: mode === 'hat' ? 'cloud' : mode, groups: others }]),
  ])
}
