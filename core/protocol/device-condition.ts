import { z } from 'zod'

const amount = z.number().min(0).nullable()
const percent = z.number().min(0).max(100).nullable()
const temperature = z.number().nullable()
const word = z.string().nullable()
const isTrue = z.boolean().nullable()

const bundle = z.object({ name: z.string(), modelId: z.string() })

/**
 * What a device is and how it fares. Everywhere null means: not known here; nothing is estimated. No addresses, no serial
 * numbers, nothing of what is asked.
 */
const sections = {
  device: z.object({
    kind: z.string().describe('`jetson`, `termux`, `linux` or `other`; a later release may know more.'),
    model: word,
    module: word.describe('Of a Jetson, e.g. `AGX Orin`.'),
    soc: word.describe('E.g. `tegra234`.'),
    l4t: word,
    jetpack: word,
    os: word,
    kernel: word,
    powerMode: word.describe("nvpmodel's on a Jetson, else the firmware's platform profile or cpufreq's governor."),
    cores: amount,
    uptimeS: amount,
    agent: word.describe('Of Brim.'),
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
    .describe("Of CPU and GPU since the sample before, or as the driver smooths it; EMC is a Jetson's memory controller."),
  memory: z.object({
    totalBytes: amount,
    freeBytes: amount.describe('Without swapping. On a Jetson the GPU takes from the same.'),
    swapTotalBytes: amount,
    swapFreeBytes: amount,
    gpuUsedBytes: amount.describe("A Jetson's GPU's part of what is used."),
  }),
  temperatures: z.object({ hottestC: temperature, zonesC: z.record(z.string(), z.number()) }),
  throttling: z
    .object({ isThrottled: isTrue, causes: z.array(z.string()) })
    .describe(
      'What holds the clocks down: `cooling cpufreq-cpu0`, `over-current VDD_IN`. `isThrottled` null: nothing here would tell.',
    ),
  power: z.object({
    railsW: z.record(z.string(), z.number()),
    totalW: amount,
    scope: word.describe(
      'What the total covers: `module`, `rails` (their sum: less than the module takes), `battery` (what it gives).',
    ),
    jPerToken: amount.describe('While answers are under way: the total over the tokens/s of all of them.'),
    busyW: amount.optional().describe('The total while answers are under way, smoothed; `idleW` while none is.'),
    idleW: amount.optional(),
    prefillJPerToken: z
      .record(z.string(), z.number())
      .optional()
      .describe("`busyW` over a model's rate: DiSCo's c_d of prefill before λ, as far as power tells it from decode."),
    decodeJPerToken: z.record(z.string(), z.number()).optional().describe('The same of decode.'),
  }),
  battery: z
    .object({
      levelPercent: percent,
      state: z.string().describe('`charging`, `discharging`, `full`, `idle` or `unknown`.'),
      powerW: amount.describe('Into or out of it, as `state` says.'),
      tempC: temperature,
      isPlugged: isTrue,
    })
    .nullable()
    .describe('Null: none. All batteries as one.'),
  fan: z.object({ dutyPercent: percent, rpm: amount }).nullable().describe('Null: none that can be read.'),
  disk: z.object({ totalBytes: amount, freeBytes: amount }).describe('Where the agent keeps its state.'),
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
    .describe('Interfaces with hardware behind them, by name.'),
  errors: z
    .array(z.object({ code: z.string(), at: z.iso.datetime(), count: z.int().min(1) }))
    .describe('The last few kinds of failure that were logged, the newest first.'),
  bundles: z
    .object({ llm: bundle, slm: bundle.nullable() })
    .describe('What the agent runs on; `slm`: its small model of its own, null where it has none.'),
  jobs: z.object({ waiting: amount, running: amount }).describe("In the device's ledger."),
  spool: z
    .object({
      waiting: amount,
      bytes: amount,
      dropped: z.object({ full: amount, old: amount, unstored: amount }).describe('Since the agent was installed.'),
    })
    .describe(
      'What was measured while no bridge heard and has not been said yet, and what never will be: no room, too old, or the disk did not take it.',
    ),
  answers: z.object({
    underWay: amount,
    decodeTokensPerS: z.record(z.string(), z.number()).describe('By model, of one answer, smoothed.'),
    prefillTokensPerS: z
      .record(z.string(), z.number())
      .optional()
      .describe("The same of prompts, of models that run here whole; of the split one's part see `speed`."),
  }),
}

export const DeviceCondition = z.object(sections)
export type DeviceCondition = z.infer<typeof DeviceCondition>

/** A section that an older agent leaves out, or a newer one says otherwise, costs that section alone. */
const lenient = <T extends z.ZodType>(section: T) => section.optional().catch(undefined)

/** Of `DeviceTelemetry`. */
export const conditionSections = {
  device: lenient(sections.device),
  load: lenient(sections.load),
  memory: lenient(sections.memory),
  temperatures: lenient(sections.temperatures),
  throttling: lenient(sections.throttling),
  power: lenient(sections.power),
  battery: lenient(sections.battery),
  fan: lenient(sections.fan),
  disk: lenient(sections.disk),
  network: lenient(sections.network),
  errors: lenient(sections.errors),
  bundles: lenient(sections.bundles),
  jobs: lenient(sections.jobs),
  spool: lenient(sections.spool),
  answers: lenient(sections.answers),
}
