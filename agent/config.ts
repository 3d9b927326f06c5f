import { z } from 'zod'
import { BrimError } from '../core/base/errors.ts'
import { defaultDraftThreshold } from '../core/policy/hat/draft-stop.ts'
import { wires } from '../core/protocol/frame.ts'
import { DeviceTelemetry } from '../core/protocol/messages.ts'
import { idPattern } from '../core/protocol/topics.ts'
import { drafterNames } from './hat/create-drafter.ts'
import { prefills, strategies, strategyNames } from './hat/strategy.ts'

const bridgeUrl = z.url({ protocol: /^mqtts?$/, error: 'a URL like mqtt://127.0.0.1:1883' })
const id = z.string().regex(idPattern, 'small letters, digits, - and _')

/** Names of the telemetry's figures, wherever they stand. */
const figures = figuresIn(z.toJSONSchema(DeviceTelemetry))
const isFigure = (name: string) => name !== '' && figures.some((figure) => figure.endsWith(name))

function figuresIn(schema: unknown): string[] {
  if (typeof schema !== 'object' || schema === null) return []
  const properties = 'properties' in schema && typeof schema.properties === 'object' ? Object.keys(schema.properties ?? {}) : []
  return [...properties, ...Object.values(schema).flatMap(figuresIn)]
}

const Settings = z.strictObject({
  id,
  fleet: id.default('default'),
  /**
   * Control planes of the fleet's bridges: where one dies, another takes its answers over. Absent: those that the device
   * has enrolled at, else the one of this machine.
   */
  bridges: z
    .array(bridgeUrl)
    .min(1)
    .refine((urls) => new Set(urls).size === urls.length, 'the same bridge twice')
    .optional(),
  /** The bridge's data plane as seen from here, in place of the announced one: a tunnel, a forwarded port. */
  dataUrl: z.url({ protocol: /^wss?$/, error: 'a URL like ws://127.0.0.1:7070/v1/data' }).optional(),
  /** Folder of the bundle whose input, output and adapter run here; or the beginning of the id of an installed model. */
  bundle: z.string().min(1),
  /** A small whole model's bundle, named likewise: it goes on where no bridge does, for requests that ask for it. */
  slm: z.string().min(1).optional(),
  /** Folder of the agent's database; made where missing. */
  stateDir: z.string().min(1),
  apiHost: z.string().default('127.0.0.1'),
  /** 0: a free one. */
  apiPort: z.int().min(0).max(65_535).default(7071),
  /** Threads within one operator. */
  threads: z.int().min(1).max(256).default(2),
  /** Path of a libonnxruntime; absent: the one that comes with the packages. */
  library: z.string().optional(),
  /** How long an answer whose link or bridge has died waits for a bridge that takes it over. */
  patienceS: z.number().min(0).default(20),
  /** How hidden states travel up: int8 halves the bytes and may change answers. */
  wire: z.enum(wires).default('fp16'),
  /** What is not said below is as this has it; all but `hat` are what HAT is measured beside. */
  strategy: z.enum(strategyNames).default('hat'),
  /** How prompts are sent. */
  prefill: z.enum(prefills).optional(),
  /** Whether prompts begin with what the bridge still holds of earlier ones. */
  reuse: z.boolean().optional(),
  /** Verifications of one length, whatever was drafted. Absent: where the link is encrypted, for else frames can be read. */
  padding: z.boolean().optional(),
  /** What the device measures of itself, and how it fares, is looked at and published at least so often; 0: never. */
  telemetryS: z
    .number()
    .refine((seconds) => seconds === 0 || seconds >= 1, 'at least 1, or 0 for none')
    .default(10),
  /** How far figures may move before that is worth a message of its own: by name, or the end of names (their unit). */
  deadBands: z
    .record(z.string(), z.strictObject({ part: z.number().min(0).default(0), amount: z.number().min(0).default(0) }))
    .refine((bands) => Object.keys(bands).every(isFigure), {
      error: ({ input }) =>
        `no figure of the telemetry ends like "${Object.keys(input as object).find((name) => !isFigure(name))}"`,
    })
    .default({}),
  /** What is measured while no bridge hears waits in the state folder, at most so much of it, and no longer. */
  spoolMb: z.number().min(1).default(64),
  spoolDays: z.number().positive().default(7),
  /** The device's retained state is published so often, with nothing new but its time; 0: never. */
  heartbeatS: z
    .number()
    .refine((seconds) => seconds === 0 || seconds >= 1, 'at least 1, or 0 for none')
    .default(30),
  draft: z
    .strictObject({
      drafter: z.enum(drafterNames).optional(),
      /** Whether the next draft is prepared while a verification is away. */
      ahead: z.boolean().optional(),
      /** η of HAT Eq. 5: below this top probability a draft ends. */
      threshold: z.number().min(0).max(1).default(defaultDraftThreshold),
      /** Most tokens per draft, beside the bridge's own limit; 0: never draft. */
      limit: z.int().min(0).optional(),
    })
    .prefault({}),
  logLevel: z.enum(['silent', 'error', 'warn', 'info', 'debug']).default('info'),
})

const checked = Settings.refine(
  ({ dataUrl, bridges }) => dataUrl === undefined || bridges === undefined || bridges.length === 1,
  {
    message: 'it can stand for one bridge only',
    path: ['dataUrl'],
  },
)

/** What is not said of the strategy's parts is as the strategy has it. */
export const AgentConfig = checked.transform(({ strategy, prefill, reuse, draft, ...config }) => {
  const preset = strategies[strategy]
  const { drafter = preset.drafter, ahead = preset.draftAhead, ...limits } = draft
  return {
    ...config,
    prefill: prefill ?? preset.prefill,
    reuse: reuse ?? preset.reuse,
    draft: { drafter, ahead, ...limits },
  }
})
export type AgentConfig = z.infer<typeof AgentConfig>
/** What must be said; the rest has defaults. */
export type AgentSettings = z.input<typeof AgentConfig>

/** @throws BrimError CONFIG_INVALID naming every field that is wrong */
export function readAgentConfig(settings: AgentSettings): AgentConfig {
  const config = AgentConfig.safeParse(settings)
  if (config.success) return config.data
  const wrong = config.error.issues.map((issue) => [issue.path.join('.'), issue.message].filter(Boolean).join(': '))
  throw new BrimError('CONFIG_INVALID', `the agent's configuration is wrong: ${wrong.join('; ')}`, {
    hint: 'brim agent run --help lists the options and their ranges',
  })
}
