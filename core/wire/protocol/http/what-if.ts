import { z } from 'zod'
import { off } from '../../../kit/base/setting-kinds.ts'
import { openEnum } from './open-enum.ts'
import { get, type Operations, post } from './operation.ts'

/** Figures that an operator may want to improve. */
export const whatIfGoals = ['ttft', 'latency', 'qos', 'cost', 'energy'] as const

/** Options of `brim simulate what-if` that describe hardware and readers. */
export const whatIfOptions = [
  ...(['model', 'gpu', 'gpus', 'replicas', 'small-model', 'board', 'devices', 'up', 'down', 'rtt'] as const),
  ...(['battery', 'reading-speed', 'accept-length', 'server-price'] as const),
] as const
export type WhatIfOption = (typeof whatIfOptions)[number]

const count = z.int().min(0)
const figure = z.number().nullable()
/** Files of the bridge's machine may not be named: errors would show what they hold. */
const value = z.string().regex(/^(?!.*\.(ya?ml|json)$)[a-z0-9][a-z0-9./-]{0,63}$/i, 'must be a figure, or the name of a preset')

const WhatIfRequest = z.strictObject({
  goal: z.enum(whatIfGoals).default('ttft'),
  private: off.describe('Only ways in which questions stay on the device.'),
  settings: z
    .partialRecord(z.enum(whatIfOptions), value)
    .default({})
    .describe('Values of options, in place of what the bridge knows.'),
})
export type WhatIfRequest = z.infer<typeof WhatIfRequest>

export const WhatIfFact = z.object({
  option: z.string().describe('Of `brim simulate what-if`.'),
  value: z.string().nullable().describe('Null: the default of the simulator.'),
  basis: openEnum(['measured', 'configured', 'chosen', 'assumed']),
  note: z.string().describe('How it is known.'),
})
export type WhatIfFact = z.infer<typeof WhatIfFact>

export const WhatIfSituation = z.object({
  requests: count.describe('Recorded since the start of the bridge, at most 2,000.'),
  minRequests: count.describe('A simulation needs so many.'),
  facts: z.array(WhatIfFact),
})
export type WhatIfSituation = z.infer<typeof WhatIfSituation>

const Quantiles = z.object({ mean: figure, p95: figure })

/** As `brim simulate what-if --json` prints it; figures of nothing are null. */
export const WhatIfOutcome = z.object({
  best: z.string().describe('Name of a way.'),
  files: z.object({ agent: z.string(), bridge: z.string() }).describe('YAML for `--config` of agents and bridge.'),
  tried: z.array(
    z.object({
      name: z.string(),
      all: z.object({
        ...{ requests: count, answered: count, ttftMs: Quantiles, tbtMs: Quantiles, latencyMs: Quantiles },
        qos: figure.describe('TokenFlow Eq. 2.'),
        work: z.object({ dollars: z.number(), joules: z.number() }).describe('0 without a price, or the power of a board.'),
      }),
    }),
  ),
})

/** One of three. */
export const WhatIfEvent = z.object({
  progress: z.object({ what: z.string(), percent: z.number() }).optional(),
  result: WhatIfOutcome.extend({ facts: z.array(WhatIfFact).describe('All that went in.') }).optional(),
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
