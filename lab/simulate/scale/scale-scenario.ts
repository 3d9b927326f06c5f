import { Scenario } from '../scenario/scenario.ts'

/** Requests per second of a device: 10,000 of 100,000. */
export const perDeviceS = 0.1

export interface ScaleSize {
  readonly devices: number
  readonly gpus: number
  /** Virtual seconds, of which those from `countedFromS` on count. */
  readonly seconds: number
  readonly countedFromS: number
}

/** Devices that ask at a steady rate for a few virtual seconds: private answers by HAT, long ones by PICE, the others by DiSCo. */
export function scaleScenario({ devices, gpus, seconds, countedFromS }: ScaleSize): Scenario {
  const perS = devices * perDeviceS
  const boards = Math.round(0.3 * devices)
  const link = { up: 7.5e6, down: 12.5e6, rttMs: 10 }
  return Scenario.parse({
    name: `${devices} devices`,
    untilS: seconds,
    cloud: { model: 'llama3-8b', gpu: 'h100', replicas: gpus, slowBytes: 128e9 },
    devices: [
      { name: 'boards', count: boards, board: 'orin-nx', link, smallModels: ['qwen2.5-3b'] },
      {
        name: 'phones',
        count: devices - boards,
        board: 'pixel-7-pro',
        link: { ...link, rttMs: 58 },
        smallModels: ['bloom-1.1b'],
      },
    ],
    policies: { disco: { learn: 'group' }, hat: { wire: 'int8' }, pice: { helpers: ['boards'] } },
    workload: {
      requests: Math.ceil(perS * seconds),
      arrivals: { kind: 'poisson', perS },
      promptTokens: { kind: 'lognormal', median: 200, sigma: 0.7, max: 4_000 },
      outputTokens: { kind: 'lognormal', median: 80, sigma: 0.7, max: 1_000 },
      readers: [{ tokensPerS: 10, share: 1 }],
      counted: { fromS: countedFromS },
      modes: [
        { mode: 'hat', name: 'private', share: 0.3, groups: ['boards'] },
        {
          mode: 'pice',
          name: 'long',
          share: 0.1,
          outputTokens: { kind: 'lognormal', median: 300, sigma: 0.4, max: 1_000 },
        },
        { mode: 'auto', name: 'others', share: 0.6 },
      ],
    },
  })
}
