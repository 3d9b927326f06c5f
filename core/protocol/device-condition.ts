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
    /** 'jetson', 'termux', 'linux' or 'other'; a later release may know more. */
    kind: z.string(),
    model: word,
    /** Of a Jetson, e.g. 'AGX Orin'. */
    module: word,
    /** E.g. 'tegra234'. */
    soc: word,
    l4t: word,
    jetpack: word,
    os: word,
    kernel: word,
    /** nvpmodel's on a Jetson, else the firmware's platform profile or cpufreq's governor. */
    powerMode: word,
    cores: amount,
    uptimeS: amount,
    /** Of Brim. */
    agent: word,
    modelId: word,
  }),
  /** Of CPU and GPU since the sample before, or as the driver smooths it; EMC is a Jetson's memory controller. */
  load: z.object({
    cpuPercent: percent,
    gpuPercent: percent,
    emcPercent: percent,
    cpuMHz: amount,
    gpuMHz: amount,
    emcMHz: amount,
  }),
  memory: z.object({
    totalBytes: amount,
    /** Without swapping. On a Jetson the GPU takes from the same. */
    freeBytes: amount,
    swapTotalBytes: amount,
    swapFreeBytes: amount,
    /** A Jetson's GPU's part of what is used. */
    gpuUsedBytes: amount,
  }),
  temperatures: z.object({ hottestC: temperature, zonesC: z.record(z.string(), z.number()) }),
  /** What holds the clocks down: 'cooling cpufreq-cpu0', 'over-current VDD_IN'. `isThrottled` null: nothing here would tell. */
  throttling: z.object({ isThrottled: isTrue, causes: z.array(z.string()) }),
  power: z.object({
    railsW: z.record(z.string(), z.number()),
    totalW: amount,
    /** What the total covers: 'module', 'rails' (their sum: less than the module takes), 'battery' (what it gives). */
    scope: word,
    /** While answers are under way: the total over the tokens/s of all of them. */
    jPerToken: amount,
    /** The total while answers are under way, and while none is: smoothed. */
    busyW: amount.optional(),
    idleW: amount.optional(),
    /** `busyW` over a model's rate: DiSCo's c_d of prefill and decode before λ, as far as power tells the two apart. */
    prefillJPerToken: z.record(z.string(), z.number()).optional(),
    decodeJPerToken: z.record(z.string(), z.number()).optional(),
  }),
  /** Null: none. All batteries as one. */
  battery: z
    .object({
      levelPercent: percent,
      /** 'charging', 'discharging', 'full', 'idle' or 'unknown'. */
      state: z.string(),
      /** Into or out of it, as `state` says. */
      powerW: amount,
      tempC: temperature,
      isPlugged: isTrue,
    })
    .nullable(),
  /** Null: none that can be read. */
  fan: z.object({ dutyPercent: percent, rpm: amount }).nullable(),
  /** Where the agent keeps its state. */
  disk: z.object({ totalBytes: amount, freeBytes: amount }),
  /** Interfaces with hardware behind them, by name. */
  network: z.record(
    z.string(),
    z.object({
      /** 'ethernet', 'wifi' or 'cellular'. */
      kind: z.string(),
      isUp: isTrue,
      linkMbitPerS: amount,
      rxBytesPerS: amount,
      txBytesPerS: amount,
    }),
  ),
  /** The last few kinds of failure that were logged, the newest first. */
  errors: z.array(z.object({ code: z.string(), at: z.iso.datetime(), count: z.int().min(1) })),
  /** What the agent runs on; `slm`: its small model of its own, null where it has none. */
  bundles: z.object({ llm: bundle, slm: bundle.nullable() }),
  /** In the device's ledger. */
  jobs: z.object({ waiting: amount, running: amount }),
  /** What was measured while no bridge heard and has not been said yet, and what never will be: no room, too old, or the disk did not take it. */
  spool: z.object({
    waiting: amount,
    bytes: amount,
    /** Since the agent was installed. */
    dropped: z.object({ full: amount, old: amount, unstored: amount }),
  }),
  answers: z.object({
    underWay: amount,
    /** By model, of one answer, smoothed. */
    decodeTokensPerS: z.record(z.string(), z.number()),
    /** The same of prompts, of models that run here whole; of the split one's part see `speed`. */
    prefillTokensPerS: z.record(z.string(), z.number()).optional(),
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
