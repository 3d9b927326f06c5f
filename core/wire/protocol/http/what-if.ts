import { z } from 'zod'
import { off } from '../../../kit/base/setting-kinds.ts'
import { openEnum } from './open-enum.ts'
import { get, type Operations, post } from './operation.ts'

/** Figures that an operator may want to improve. */
export const whatIfGoals = ['ttft', 'latency', 'qos', 'cost', 'energy'] as const

/** A simulation of fewer requests says nothing of a fleet. */
export const minWhatIfRequests = 20

const count = z.int().min(0)
const positive = z.number().positive()
const figure = z.number().nullable()
/** Files of the bridge's machine may not be named: errors would show what they hold. */
const preset = z.string().regex(/^(?!.*\.(ya?ml|json)$)[a-z0-9][a-z0-9.-]{0,63}$/i, 'must be the name of a preset')

/** In place of what the bridge has measured, or knows; named as the options of `brim simulate what-if`. */
export const WhatIfSettings = z
  .strictObject({
    model: preset.describe('Preset of the model of the bridge.'),
    gpu: preset.describe('Preset of its GPU.'),
    smallModel: preset.describe('Preset of the small model of the devices.'),
    board: preset.describe('Preset of their board.'),
    devices: z.int().min(1).max(10_000),
    up: positive.describe('Uplink of a device, in Mbit/s.'),
    down: positive.describe('Downlink of a device, in Mbit/s.'),
    rtt: z.number().min(0).describe('Round trip to the bridge, in ms.'),
    battery: z.number().min(0).max(1).describe('Charge of the devices’ batteries; absent: mains.'),
    serverPrice: z
      .string()
      .regex(/^\d{1,9}(\.\d{1,9})?\/\d{1,9}(\.\d{1,9})?$/, 'must be like 0.15/0.60')
      .describe('Dollars per million tokens of prompt and answer.'),
    acceptLength: z.number().min(1).max(16).describe('Tokens per verification of the drafter.'),
  })
  .partial()
export type WhatIfSettings = z.infer<typeof WhatIfSettings>

const WhatIfRequest = z.strictObject({
  goal: z.enum(whatIfGoals).default('ttft'),
  private: off.describe('Only ways in which questions stay on the device.'),
  settings: WhatIfSettings.default({}),
})
export type WhatIfRequest = z.infer<typeof WhatIfRequest>

export const WhatIfFact = z.object({
  option: z.string().describe('Of `brim simulate what-if`.'),
  value: z.union([z.string(), z.number()]),
  basis: openEnum(['measured', 'configured', 'chosen', 'assumed']),
  note: z.string().describe('How it is known.'),
})
export type WhatIfFact = z.infer<typeof WhatIfFact>

export const WhatIfSituation = z.object({
  requests: count.describe('Recorded since the start of the bridge, at most 2,000.'),
  minRequests: count.describe('A simulation needs so many.'),
  spanS: z.number().min(0).describe('From the first to the last of them.'),
  promptTokens: figure.describe('Mean.'),
  outputTokens: figure.describe('Mean.'),
  facts: z.array(WhatIfFact).describe('What is known of the fleet.'),
})
export type WhatIfSituation = z.infer<typeof WhatIfSituation>

const WhatIfWay = z.object({
  name: z.string(),
  requests: count,
  answered: count,
  ttftMs: z.object({ mean: figure, p95: figure }),
  tbtP95Ms: figure,
  latencyP95Ms: figure,
  qos: figure.describe('TokenFlow Eq. 2.'),
  dollars: figure.describe('Per answer; null: no price is known.'),
  joules: figure.describe('Of the devices, per answer; null: the power of the board is not known.'),
})
export type WhatIfWay = z.infer<typeof WhatIfWay>

/** One of three. */
export const WhatIfEvent = z.object({
  progress: z.object({ what: z.string(), percent: z.number() }).optional(),
  result: z
    .object({
      best: z.string().describe('Name of a way.'),
      ways: z.array(WhatIfWay).describe('All that were simulated, in that order.'),
      facts: z.array(WhatIfFact).describe('All that went in.'),
      files: z.object({ agent: z.string(), bridge: z.string() }).describe('YAML for `--config` of agents and bridge.'),
    })
    .optional(),
  error: z.object({ code: z.string(), message: z.string(), hint: z.string().optional() }).optional(),
})
export type WhatIfEvent = z.infer<typeof WhatIfEvent>

export const whatIfOperations = {
  situation: get('/v1/what-if', 'operate', 'What a simulation of this fleet would begin with', { response: WhatIfSituation }),
  run: post('/v1/what-if', 'operate', 'Simulate other ways of answering the recorded requests, as a stream; its end ends it', {
    body: WhatIfRequest,
    event: WhatIfEvent,
  }),
} satisfies Operations
