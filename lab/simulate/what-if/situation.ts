import { z } from 'zod'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { nonNegative } from '../../../core/kit/base/setting-kinds.ts'
import type { TokenCosts } from '../../../core/policy/disco/state.ts'
import { stepDefaults } from '../../../core/policy/serving/step-defaults.ts'
import { defaultAcceptLength } from '../scenario/hat-settings.ts'
import { Scenario } from '../scenario/scenario.ts'
import { scenarioProblems } from '../scenario/scenario-problems.ts'
import { type FleetCandidate, settingsOf } from './candidates.ts'
import { fieldsOf } from './settings.ts'

const count = z.int().min(1)
const positive = z.number().positive()
const bytesPerMbit = 1e6 / 8

/** The hardware of a user, and the requests to it. */
export const situationOptions = {
  model: z.string().default('llama3-8b').describe('model of the bridge'),
  gpu: z.string().default('a100-80').describe('GPU of the bridge'),
  gpus: count.default(1).describe('GPUs that hold the model together'),
  replicas: count.default(1).describe('copies of the model, each with GPUs of its own'),
  board: z.string().default('agx-orin-32').describe('board or phone of the devices'),
  smallModel: z.string().default('qwen2.5-1.5b').describe('small model of the devices'),
  devices: count.default(20).describe('number of devices'),
  up: positive.default(40).describe('uplink of a device, in Mbit/s'),
  down: positive.default(100).describe('downlink of a device, in Mbit/s'),
  rtt: nonNegative(20).describe('round trip to the bridge, in ms'),
  readingSpeed: positive.default(5).describe('tokens per second that a reader takes'),
  serverPrice: z
    .string()
    .regex(/^\d+(\.\d+)?\/\d+(\.\d+)?$/, 'must be like 0.15/0.60: dollars per million tokens of prompt and answer')
    .optional()
    .meta({ description: 'price of the bridge’s tokens, in dollars per million of prompt and answer', fallback: 'unknown' }),
  battery: z
    .number()
    .min(0)
    .max(1)
    .optional()
    .meta({ description: 'charge of the devices’ batteries, 0 to 1', fallback: 'mains power' }),
  acceptLength: z
    .number()
    .min(1)
    .max(16)
    .default(defaultAcceptLength)
    .describe(
      'tokens per verification of your drafter, bonus included ("brim bench acceptance" measures it); for private answers',
    ),
  requests: count.default(500).describe('requests of the trace that are simulated, from its beginning'),
}
export interface Situation extends z.output<z.ZodObject<typeof situationOptions>> {
  readonly trace: string
}

/** Dollars per token of the bridge; undefined: unknown. */
export function priceOf({ serverPrice }: Pick<Situation, 'serverPrice'>): TokenCosts | undefined {
  const [prompt, output] = serverPrice?.split('/').map((dollars) => Number(dollars) / 1e6) ?? []
  return prompt === undefined || output === undefined ? undefined : { prompt, output }
}

/** The default of the bridge's limit waitingAnswers. */
const maxWaiting = 512

/** A candidate on that hardware. @throws BrimError USAGE for hardware or a model that there is not */
export function scenarioOf(situation: Situation, candidate: FleetCandidate): Scenario {
  const { model, gpu, gpus, replicas, board, smallModel, devices, up, down, rtt, readingSpeed, battery, trace, requests } =
    situation
  const price = priceOf(situation)
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
        link: { up: up * bytesPerMbit, down: down * bytesPerMbit, rttMs: rtt },
        ...(battery !== undefined && { battery }),
      },
    ],
    policies: {
      // The mode auto of an agent with `--server bridge` has all ways.
      disco: { sketches: candidate.mode === 'auto', splitting: ['devices'], ...fieldsOf('disco', settings) },
      hat: { acceptLength: situation.acceptLength, threshold: null, growingChunks: true, ...fieldsOf('hat', settings) },
    },
    workload: {
      requests,
      arrivals: { kind: 'trace', file: trace },
      readers: [{ tokensPerS: readingSpeed, share: 1 }],
      modes: [{ mode: candidate.mode }],
    },
  }
  const parsed = Scenario.safeParse(raw)
  if (parsed.success) return parsed.data
  const problems = scenarioProblems(parsed.error, raw).map(({ path, text }) => `${path.join('.')} ${text}`)
  throw new BrimError('USAGE', problems.join('; '), { hint: '"brim simulate presets" lists models, GPUs and boards' })
}
