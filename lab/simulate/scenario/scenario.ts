import { z } from 'zod'
import { nonEmpty, nonNegative, off, on } from '../../../core/kit/base/setting-kinds.ts'
import { servingPolicyNames } from '../../baselines/serving-policies.ts'
import { boards, gpus, models } from '../hardware/presets/presets.ts'
import { DiscoSettings, DollarsPerToken } from './disco-settings.ts'
import { Distribution } from './distribution.ts'
import { HatSettings } from './hat-settings.ts'
import { missingParts } from './missing-parts.ts'
import { modeNames } from './mode-name.ts'
import { LocalSettings, PiceSettings, RoutingSettings } from './pice-settings.ts'
import { presetName } from './preset-name.ts'
import { TokenFlowSettings } from './tokenflow-settings.ts'

const count = z.number().int().positive()
const positive = z.number().positive()
const share = z.number().min(0).max(1)

/** Rates of a link: constant, a random walk between two rates, or a recorded trace. */
export const Rate = z.union([
  positive.describe('bytes per second'),
  z.strictObject({
    walk: z
      .tuple([positive, positive])
      .refine(([low, high]) => low <= high, 'must have the lower rate first')
      .describe('lowest and highest bytes per second of a random walk'),
  }),
  z.strictObject({
    trace: z.string().describe('file with one line of "seconds Mbit/s" per second, or a folder of them: each device has one'),
    meanBytesPerS: positive.optional().describe('scales the trace to this mean'),
  }),
])

export const Link = z
  .strictObject({
    up: Rate.describe('from the device to the bridge: bytes per second, or how they change'),
    down: Rate.describe('from the bridge to the device, as up'),
    rttMs: nonNegative(10).describe('propagation both ways, in ms'),
    lossPercent: z.number().min(0).max(50).default(0).describe('of the packets, that are lost'),
  })
  .meta({ id: 'Link' })

const Reached = z
  .strictObject({
    memory: share.gt(0).default(1).describe('of the memory’s rate'),
    compute: share.gt(0).default(1).describe('of the FLOP per second'),
    decode: share.gt(0).default(1).describe('of the compute, in rows whose tokens are chosen'),
    layerMs: nonNegative(0).describe('that it adds for each layer of a step'),
  })
  .prefault({})
  .describe('shares of the preset’s rates that the framework reaches')

export const DeviceGroup = z
  .strictObject({
    name: nonEmpty.describe('by which workload and results name these devices'),
    count: count.describe('number of devices'),
    board: presetName('board', boards, { files: true }).describe(
      'name of a board preset (brim simulate presets lists them), or file of a machine that brim simulate calibrate wrote',
    ),
    powerModes: z
      .union([z.array(share.gt(0)).min(1), z.literal('board')])
      .default([1])
      .describe('speeds of its power modes, as shares of full speed, or "board": those of its board'),
    powerModeEvery: count.default(5).describe('requests of the device after which its power mode is drawn again'),
    link: Link.describe('between each device and the bridge'),
    smallModels: z
      .array(presetName('model', models))
      .default([])
      .describe('names of model presets that it can answer or expand with'),
    reaches: Reached,
    throttles: on.describe('long work slows its board, where its cooling does not suffice'),
    battery: share.optional().describe('charge at the beginning; absent: mains'),
  })
  .meta({ id: 'DeviceGroup' })

export const Cloud = z
  .strictObject({
    model: presetName('model', models).describe('name of a model preset'),
    gpu: presetName('GPU', gpus, { files: true }).describe('name of a GPU preset, or file of a machine, as board'),
    reaches: Reached,
    gpus: count.default(1).describe('GPUs that hold the model together (tensor parallel)'),
    pipeline: count.default(1).describe('P: pipeline stages, each on GPUs of its own'),
    pipelinedPrompts: off.describe(
      'a prompt’s pieces follow one another through the stages; else as the bridge computes them, one after the other',
    ),
    inputLayers: z.int().nonnegative().default(2).describe('layers that devices compute themselves (HAT)'),
    replicas: count.default(1).describe('copies of the model, each with its own GPUs'),
    policy: z.enum(servingPolicyNames).default('tokenflow').describe('which answers the model computes next'),
    reserves: z
      .enum(['whole', 'share'])
      .default('whole')
      .describe('memory that fcfs and chunked keep for running answers: for their greatest length, or SGLang’s share of it'),
    planMs: nonNegative(0).describe('time of a plan, by which each step begins later'),
    promptRows: count.default(512).describe('rows of prompts in a step while streams decode'),
    stepRows: count.default(4096).describe('max rows of a step: tokens of prompts and answers together'),
    stepStreams: count.default(256).describe('max answers and sessions in a step'),
    memoryShare: share.default(0.9).describe('of the GPUs’ memory that weights and KV may use'),
    slowBytes: nonNegative(0).describe('host memory for preempted KV'),
    transferBytesPerS: positive.optional().describe('of KV to host memory, and back; absent: what the GPU preset reaches'),
    waitsForTransfers: off.describe('no step begins while KV moves; Brim’s engine does not wait'),
    writeThrough: on.describe('new KV is written to host memory while steps compute'),
    overlap: on.describe('KV of resumed answers is loaded while that of preempted ones leaves'),
    memoryWaitS: z
      .union([positive, z.literal('unlimited')])
      .default(10)
      .describe(
        'seconds for which rows of a device wait for KV memory; then its session fails, and here its answer; unlimited: none is refused',
      ),
    maxWaiting: count.default(100_000).describe('answers that wait for their first step; a further request is refused'),
    answersAtOnce: count
      .optional()
      .describe('answers that the model writes at once, others wait in the order of their arrival; absent: as memory allows'),
    streamMs: nonNegative(0).describe(
      'of a step, for each stream in it, that the framework spends on scheduling, sampling and sending',
    ),
    stepJitter: nonNegative(0).describe('σ of the log of measured over predicted step times'),
    dollarsPerToken: DollarsPerToken.optional().describe('price of its tokens; absent: unknown'),
  })
  .meta({ id: 'Cloud' })

export const Server = z
  .strictObject({
    trace: z.string().optional().describe('recorded API latencies (JSONL of ttft_s and inter_token_latency_s)'),
    ttftMs: Distribution.default(500).describe('to the first token, unless there is a trace'),
    tokenMs: Distribution.default(20).describe('between tokens, unless there is a trace'),
    dollarsPerToken: DollarsPerToken.optional().describe('price of its tokens; absent: unknown'),
  })
  .meta({ id: 'Server' })

export const Arrivals = z.union([
  z.strictObject({
    kind: z.literal('poisson').describe('at random, independently of each other'),
    perS: positive.describe('requests per second, in the mean'),
  }),
  z.strictObject({
    kind: z.literal('burst').describe('all at once'),
    atS: nonNegative(0).describe('seconds from the beginning'),
  }),
  z.strictObject({
    kind: z.literal('trace').describe('as a file has recorded them'),
    file: z.string().describe('CSV or JSONL with arrival, prompt and output tokens: Azure, Mooncake, or your own'),
    speed: positive.default(1).describe('how many times as fast as recorded'),
    skipS: nonNegative(0).describe('seconds of the trace that are left out'),
    lengths: positive.default(1).describe('factor of the recorded lengths'),
  }),
  z.strictObject({
    kind: z.literal('list').describe('as listed here'),
    requests: z
      .array(
        z.strictObject({
          atS: z.number().nonnegative().describe('seconds from the beginning'),
          promptTokens: count.describe('tokens of its prompt'),
          outputTokens: count.describe('tokens of its answer'),
          sharedTokens: z
            .int()
            .nonnegative()
            .default(0)
            .describe('of the prompt’s beginning, that earlier requests had in common'),
          part: z.string().optional().describe('name of its part of the workload; absent: drawn by the shares'),
        }),
      )
      .min(1)
      .describe('in the order of arrival'),
  }),
])

export const ModeShare = z
  .strictObject({
    mode: z.enum(modeNames).describe('way of answering'),
    name: nonEmpty.optional().describe('of this part of the workload, by which results are shown; absent: its mode'),
    share: share.default(1).describe('weight of these requests among all'),
    groups: z
      .array(z.string())
      .optional()
      .describe('names of the groups whose devices ask; []: clients of the cloud ask; absent: all devices'),
    promptTokens: Distribution.optional().describe('in place of those of the workload'),
    outputTokens: Distribution.optional().describe('as promptTokens'),
  })
  .meta({ id: 'ModeShare' })

export const Workload = z
  .strictObject({
    requests: count.describe('how many, at most'),
    arrivals: Arrivals.describe('when requests come'),
    promptTokens: Distribution.optional().describe('required unless the arrivals are a trace, whose lengths it replaces'),
    outputTokens: Distribution.optional().describe('as promptTokens'),
    sharedTokens: Distribution.default(0).describe('of the prompt’s beginning, that earlier requests had in common'),
    maxOutputTokens: count.default(4096).describe('no answer is longer'),
    readers: z
      .array(
        z.strictObject({
          tokensPerS: positive.describe('tokens that they read per second'),
          share: share.describe('weight of these readers among all'),
        }),
      )
      .min(1)
      .default([{ tokensPerS: 5, share: 1 }])
      .describe('how fast answers are read'),
    askers: z
      .enum(['any', 'idle'])
      .default('any')
      .describe('devices that may ask next: any, or those without an answer under way'),
    counted: z
      .strictObject({
        fromS: nonNegative(0).describe('seconds from the beginning'),
        untilS: positive.optional().describe('seconds from the beginning; absent: to the end'),
      })
      .prefault({})
      .describe(
        'only requests that come between these times are counted in the results: without what a cloud that is still empty, or already empties, makes of them',
      ),
    modes: z.array(ModeShare).min(1).describe('ways of answering, each with its share of the requests'),
  })
  .meta({ id: 'Workload' })

export const Policies = z
  .strictObject({
    disco: DiscoSettings.prefault({}).describe('answers of a device and a server: modes auto, cheap, race'),
    hat: HatSettings.prefault({}).describe('private answers by a split model: modes hat and u-…'),
    local: LocalSettings.prefault({}).describe('answers of small models: mode local'),
    pice: PiceSettings.prefault({}).describe('answers that devices expand from sketches: modes pice and static'),
    routing: RoutingSettings.prefault({}).describe('device or cloud by difficulty: mode routing'),
    tokenflow: TokenFlowSettings.prefault({}).describe('the cloud’s policy tokenflow'),
  })
  .meta({ id: 'Policies' })

/** A run of the simulator: what exists, and what is asked of it. */
export const Scenario = z
  .strictObject({
    name: nonEmpty.describe('heads the results'),
    seed: z.number().int().default(1).describe('of chance: the same seed gives the same result'),
    untilS: positive.optional().describe('ends the run, complete or not'),
    cloud: Cloud.optional().describe('model, GPUs and settings of the bridge'),
    server: Server.optional().describe('a commercial API, in place of the cloud in the modes cloud, auto, cheap and race'),
    devices: z.array(DeviceGroup).default([]).describe('groups of boards or phones'),
    workload: Workload.describe('what is asked, when, and which mode answers it'),
    policies: Policies.prefault({}).describe('settings of the ways of answering'),
  })
  .superRefine((scenario, context) => {
    for (const { path, text } of missingParts(scenario)) context.addIssue({ code: 'custom', path: [...path], message: text })
  })
  .meta({ id: 'Scenario', title: 'A scenario of brim simulate' })
export type Scenario = z.output<typeof Scenario>
export type DeviceGroup = z.output<typeof DeviceGroup>
export type Cloud = z.output<typeof Cloud>
export type Link = z.output<typeof Link>
export type Rate = z.output<typeof Rate>
export type Server = z.output<typeof Server>
export type Policies = z.output<typeof Policies>
export type Workload = z.output<typeof Workload>
