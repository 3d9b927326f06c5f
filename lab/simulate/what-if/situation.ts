import { BrimError } from '../../../core/kit/base/errors.ts'
import { stepDefaults } from '../../../core/policy/serving/step-defaults.ts'
import { Scenario } from '../scenario/scenario.ts'
import { scenarioProblems } from '../scenario/scenario-problems.ts'
import { type Candidate, settingsOf } from './candidates.ts'
import { fieldsOf } from './settings.ts'

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
  /** Tokens per verification of HAT at the default threshold, bonus included. */
  readonly acceptLength: number
  /** Dollars per token of the bridge; undefined: unknown. */
  readonly price: { readonly prompt: number; readonly output: number } | undefined
  /** Charge of the devices; undefined: mains. */
  readonly battery?: number | undefined
}

/** The default of the bridge's limit waitingAnswers. */
const maxWaiting = 512

/** A candidate on that hardware. @throws BrimError USAGE for hardware or a model that there is not */
export function scenarioOf(situation: Situation, candidate: Candidate): Scenario {
  const { model, gpu, gpus, replicas, board, smallModel, devices, link, reading, price, battery, trace, requests } = situation
  const settings = settingsOf(candidate)
  const raw = {
    name: candidate.name,
    cloud: {
      ...{ model, gpu, gpus, replicas, maxWaiting, ...fieldsOf('cloud', settings) },
      // As the bridge's --kv-slow, whose default follows from the policy.
      slowBytes: settings.policy === 'tokenflow' ? stepDefaults.slowBytes : 0,
      ...(price && { dollarsPerToken: price }),
    },
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
    policies: {
      disco: fieldsOf('disco', settings),
      hat: { acceptLength: situation.acceptLength, ...fieldsOf('hat', settings) },
    },
    workload: {
      requests,
      arrivals: { kind: 'trace', file: trace },
      readers: [{ tokensPerS: reading, share: 1 }],
      modes: [{ mode: candidate.mode }],
    },
  }
  const parsed = Scenario.safeParse(raw)
  if (parsed.success) return parsed.data
  const problems = scenarioProblems(parsed.error, raw).map(({ path, text }) => `${path.join('.')} ${text}`)
  throw new BrimError('USAGE', problems.join('; '), { hint: '"brim simulate presets" lists models, GPUs and boards' })
}
