import { z } from 'zod'
import { figure } from './figure.ts'
import { Spending } from './spending.ts'

const amount = figure(z.number().min(0))
const percent = figure(z.number().min(0).max(100))
const temperature = figure(z.number())
const word = figure(z.string())
const isTrue = figure(z.boolean())

const bundle = z.object({ name: z.string(), modelId: z.string() })

/**
 * A device's identity and condition. Null or absent always means unknown; nothing is estimated. It contains no addresses, no serial
 * numbers, and nothing about prompts or answers.
 */
const sections = {
  device: z.object({
    kind: z.string().describe('`jetson`, `termux`, `linux` or `other`; a later release may know more.'),
    model: word,
    module: word.describe('Jetson module, e.g. `AGX Orin`.'),
    soc: word.describe('E.g. `tegra234`.'),
    l4t: word,
    jetpack: word,
    os: word,
    kernel: word,
    powerMode: word.describe('Power mode of nvpmodel on a Jetson, else platform profile of the firmware or cpufreq governor.'),
    cores: amount,
    uptimeS: amount,
    agent: word.describe('Version of Brim.'),
    modelId: word,
  }),
  load: z
    .object({
      cpuPercent: percent,
      gpuPercent: percent,
      emcPercent: percent,
      cpuMHz: amount,
      gpuMHz: amount,
      emcMHz: amount,
    })
    .describe("CPU and GPU load since the previous sample, or as the driver averages it; EMC is a Jetson's memory controller."),
  memory: z.object({
    totalBytes: amount,
    freeBytes: amount.describe('Available without swapping. On a Jetson the GPU uses the same memory.'),
    swapTotalBytes: amount,
    swapFreeBytes: amount,
    gpuUsedBytes: amount.describe('Memory used by the GPU of a Jetson.'),
  }),
  temperatures: z.object({ hottestC: temperature, zonesC: z.record(z.string(), z.number()) }),
  throttling: z
    .object({ isThrottled: isTrue, causes: z.array(z.string()) })
    .describe(
      'Causes of throttling, such as `cooling cpufreq-cpu0` or `over-current VDD_IN`. `isThrottled` null: the device has no such sensor.',
    ),
  power: z.object({
    railsW: z.record(z.string(), z.number()),
    totalW: amount,
    scope: word.describe(
      'Scope of the total: `module`, `rails` (their sum, less than the module draws) or `battery` (its output).',
    ),
    jPerToken: amount.describe('Energy per token while answers are in progress: total power / tokens per second of all answers.'),
    busyW: amount.optional().describe('Total power while answers are in progress, smoothed; `idleW`: while none is.'),
    idleW: amount.optional(),
    prefillJPerToken: z
      .record(z.string(), z.number())
      .optional()
      .describe("`busyW` / prefill rate of the model: DiSCo's c_d of prefill, before λ."),
    decodeJPerToken: z.record(z.string(), z.number()).optional().describe('`busyW` / decode rate of the model.'),
  }),
  battery: z
    .object({
      levelPercent: percent,
      state: z.string().describe('`charging`, `discharging`, `full`, `idle` or `unknown`.'),
      powerW: amount.describe('Power into or out of the battery, depending on `state`.'),
      tempC: temperature,
      isPlugged: isTrue,
    })
    .nullable()
    .describe('All batteries as one; null: none.'),
  fan: z.object({ dutyPercent: percent, rpm: amount }).nullable().describe('Null: no readable fan.'),
  disk: z.object({ totalBytes: amount, freeBytes: amount }).describe("The disk of the agent's state folder."),
  network: z
    .record(
      z.string(),
      z.object({
        kind: z.string().describe('`ethernet`, `wifi` or `cellular`.'),
        isUp: isTrue,
        linkMbitPerS: amount,
        rxBytesPerS: amount,
        txBytesPerS: amount,
      }),
    )
    .describe('Hardware network interfaces, by name.'),
  errors: z
    .array(z.object({ code: z.string(), at: z.iso.datetime(), count: z.int().min(1) }))
    .describe('The last few error codes that were logged, newest first.'),
  bundles: z
    .object({
      llm: figure(bundle),
      slm: figure(bundle),
      expanding: z.array(z.string()).max(256).optional().describe('Small models that expand sketches, ascending by size.'),
    })
    .describe("Models in use, null: none; `slm`: the agent's own small model."),
  jobs: z.object({ waiting: amount, running: amount }).describe('Jobs on the device.'),
  spool: z
    .object({
      waiting: amount,
      bytes: amount,
      dropped: z
        .object({ full: amount, old: amount, unstored: amount })
        .describe('Messages dropped since the agent was installed: spool full, message too old, disk failure.'),
    })
    .describe('Messages that could not be sent because no bridge was reachable.'),
  spending: Spending.optional().describe('What answers have cost within the window of the budget, and what they may cost.'),
  answers: z.object({
    underWay: amount,
    decodeTokensPerS: z.record(z.string(), z.number()).describe('Decode rate of one answer by model, smoothed.'),
    prefillTokensPerS: z
      .record(z.string(), z.number())
      .optional()
      .describe('Prefill rate by model, of models that run whole on the device; for the split model see `speed`.'),
  }),
}

export const DeviceCondition = z.object(sections)
export type DeviceCondition = z.infer<typeof DeviceCondition>

type Lenient<Sections extends Readonly<Record<string, z.ZodType>>> = {
  readonly [Name in keyof Sections]: z.ZodCatch<z.ZodOptional<Sections[Name]>>
}

/**
 * The sections as fields of `DeviceTelemetry`. A section that an older agent omits, or a newer one sends in another form, is
 * dropped without affecting the others.
 */
export const conditionSections = Object.fromEntries(
  Object.entries<z.ZodType>(sections).map(([name, section]) => [name, section.optional().catch(undefined)]),
) as unknown as Lenient<typeof sections>
