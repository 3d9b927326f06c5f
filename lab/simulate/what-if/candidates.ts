import { BrimError } from '../../../core/base/errors.ts'
import type { ModeName } from '../scenario/mode-name.ts'
import { Scenario } from '../scenario/scenario.ts'
import { scenarioProblems } from '../scenario/scenario-problems.ts'

/** The hardware of a user, and the requests to it. */
export interface Situation {
  readonly trace: string
  readonly requests: number
  readonly model: string
  readonly gpu: string
  readonly gpus: number
  readonly replicas: number
  readonly board: string
  readonly smallModel: string
  readonly devices: number
  /** Bytes per second, and ms. */
  readonly link: { readonly up: number; readonly down: number; readonly rttMs: number }
  /** Tokens per second of a reader. */
  readonly reading: number
  /** Dollars per token of the bridge; undefined: unknown. */
  readonly price: { readonly prompt: number; readonly output: number } | undefined
  /** Charge of the devices; undefined: mains. */
  readonly battery: number | undefined
}

type Lines = Readonly<Record<string, string | number | boolean>>

/** One way of using that hardware: how it is simulated, and the settings of agent and bridge. */
export interface Candidate {
  readonly name: string
  readonly mode: ModeName
  /** Whether questions stay on the device. */
  readonly isPrivate: boolean
  /** Parts of the scenario that differ from the common ones. */
  readonly cloud: Readonly<Record<string, unknown>>
  readonly disco: Readonly<Record<string, unknown>>
  readonly hat: Readonly<Record<string, unknown>>
  /** Options of `brim agent run` and `brim bridge run`. */
  readonly agent: Lines
  readonly bridge: Lines
}

const nothing = { cloud: {}, disco: {}, hat: {}, agent: {}, bridge: {} }
const shares = [0.2, 0.5, 0.8] as const
const policies = ['tokenflow', 'decode-first'] as const
const promptRows = [128, 512] as const
const frames = [128, 512] as const

/** Ways of answering, with the defaults of agent and bridge for everything else. */
export function firstCandidates(): Candidate[] {
  const atServer = { server: 'bridge' }
  return [
    { ...nothing, name: 'cloud', mode: 'cloud', isPrivate: false, agent: { mode: 'cloud', ...atServer } },
    { ...nothing, name: 'private (HAT)', mode: 'hat', isPrivate: true, agent: { mode: 'private' } },
    { ...nothing, name: 'local', mode: 'local', isPrivate: true, agent: { mode: 'local' } },
    { ...nothing, name: 'fast', mode: 'race', isPrivate: false, agent: { mode: 'fast', ...atServer } },
    { ...nothing, name: 'cheap', mode: 'cheap', isPrivate: false, agent: { mode: 'cheap', ...atServer } },
    ...shares.map(
      (share): Candidate => ({
        ...nothing,
        name: `auto, budget-share ${share}`,
        mode: 'auto',
        isPrivate: false,
        disco: { share },
        agent: { mode: 'auto', 'budget-share': share, ...atServer },
      }),
    ),
    {
      ...nothing,
      name: 'sketches (PICE)',
      mode: 'pice',
      isPrivate: false,
      agent: { mode: 'cloud', ...atServer },
      bridge: { 'answer-mode': 'auto' },
    },
  ]
}

/** The best way with other settings of the bridge, and of HAT where it takes part. */
export function refinedCandidates(best: Candidate): Candidate[] {
  const served = policies.flatMap((policy) =>
    promptRows.map((rows): Candidate => {
      const settings = { 'serving-policy': policy, 'prompt-tokens': rows }
      return {
        ...best,
        name: `${best.name}, ${policy}, prompt-tokens ${rows}`,
        cloud: { ...best.cloud, policy, promptRows: rows },
        bridge: { ...best.bridge, ...settings },
      }
    }),
  )
  if (best.mode !== 'hat') return best.mode === 'local' ? [] : served
  return served.flatMap((each) =>
    frames.flatMap((frame) =>
      [true, false].map(
        (ahead): Candidate => ({
          ...each,
          name: `${each.name}, frame-tokens ${frame}, ${ahead ? '' : 'no '}draft-ahead`,
          hat: { maxChunkTokens: frame, chunkTokens: frame, draftAhead: ahead },
          bridge: { ...each.bridge, 'frame-tokens': frame },
          agent: { ...each.agent, 'draft-ahead': ahead },
        }),
      ),
    ),
  )
}

/** @throws BrimError USAGE for hardware or a model that there is not */
export function scenarioOf(situation: Situation, { name, mode, cloud, disco, hat }: Candidate): Scenario {
  const { model, gpu, gpus, replicas, board, smallModel, devices, link, reading, price, battery, trace, requests } = situation
  const raw = {
    name,
    cloud: { model, gpu, gpus, replicas, ...(price && { dollarsPerToken: price }), ...cloud },
    devices: [
      {
        name: 'devices',
        count: devices,
        board,
        smallModels: [smallModel],
        link,
        ...(battery !== undefined && { battery }),
      },
    ],
    policies: { disco, hat },
    workload: {
      requests,
      arrivals: { kind: 'trace', file: trace },
      readers: [{ tokensPerS: reading, share: 1 }],
      modes: [{ mode }],
    },
  }
  const parsed = Scenario.safeParse(raw)
  if (parsed.success) return parsed.data
  const problems = scenarioProblems(parsed.error, raw).map(({ path, text }) => `${path.join('.')} ${text}`)
  throw new BrimError('USAGE', problems.join('; '), { hint: '"brim simulate presets" lists models, GPUs and boards' })
}
