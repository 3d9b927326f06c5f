import { isIPv6 } from 'node:net'
import { z } from 'zod'
import { apiBaseUrl } from '../core/answer/upstream/base-url.ts'
import { parseConfig } from '../core/kit/base/config.ts'
import { nonEmpty, nonNegative, WebOrigin } from '../core/kit/base/setting-kinds.ts'
import { ProviderName } from '../core/wire/protocol/computing.ts'
import { wires } from '../core/wire/protocol/frame.ts'
import { Id } from '../core/wire/protocol/id.ts'
import { DeviceTelemetry } from '../core/wire/protocol/messages.ts'
import { brokerUrl } from '../core/wire/protocol/mqtt-url.ts'
import { processFields } from '../core/wire/protocol/process-fields.ts'
import { PublicKey } from '../core/wire/signing/signature.ts'
import { DisclosuresConfig, PrivacyConfig } from './disclosures/config.ts'
import { BudgetConfig, DispatchConfig, ServerConfig } from './disco/config.ts'
import { drafterNames } from './hat/create-drafter.ts'
import { AgentLimits } from './limits.ts'

const bridgeUrl = brokerUrl(
  /^(?:mqtt|ws)s?$/,
  'must be a URL like mqtt://127.0.0.1, mqtts://10.0.0.5 or wss://bridge.example, or several with commas',
)

/** @param name of a figure of the telemetry, or the end of one */
const isFigure = (name: string) => name !== '' && fieldsOf(z.toJSONSchema(DeviceTelemetry)).some((field) => field.endsWith(name))

function fieldsOf(schema: unknown): string[] {
  if (typeof schema !== 'object' || schema === null) return []
  const properties = 'properties' in schema && typeof schema.properties === 'object' ? Object.keys(schema.properties ?? {}) : []
  return [...properties, ...Object.values(schema).flatMap(fieldsOf)]
}

/** The fleet must not set intervals after which a device seems lost. */
const maxIntervalS = 86_400
const seconds = z
  .number()
  .refine((value) => value === 0 || (value >= 1 && value <= maxIntervalS), `must be from 1 to ${maxIntervalS}, or 0`)

/** A name or address without port, as a URL shows it. */
function hostName(text: string, context: z.core.$RefinementCtx<string>): string {
  const url = `http://${isIPv6(text) ? `[${text}]` : text}`
  if ((isIPv6(text) || /^[\w.-]+$/.test(text)) && URL.canParse(url)) return new URL(url).hostname
  context.issues.push({
    code: 'custom',
    input: text,
    message: 'must be a name or address without port, such as host.docker.internal',
  })
  return z.NEVER
}

const SlmServerConfig = z.strictObject({
  url: z
    .url({ protocol: /^https?$/, error: 'must be a URL like http://127.0.0.1:8080' })
    .refine((url) => !url.includes('@'), 'must not contain a name or password: a key belongs in a file')
    .transform(apiBaseUrl)
    .meta({
      flag: 'slm-server',
      description:
        "URL of a server with OpenAI's API whose model expands sketches: llama.cpp, Ollama or TensorRT-LLM on this device",
      fallback: 'none',
    }),
  model: z.string().min(1).max(256).meta({ flag: 'slm-server-model', description: 'name of its model', fallback: 'none' }),
  keyFile: nonEmpty.optional().meta({
    flag: 'slm-server-key-file',
    description: 'file with the API key for that server, readable by its owner only',
    fallback: 'no key',
  }),
})

/** Every setting of an agent. Those with a description are options of `brim agent run`. */
export const AgentFields = z.strictObject({
  bundle: nonEmpty.optional().meta({
    description: 'folder of the bundle, the same as at the bridge; or the first characters of an installed model id',
    fallback: 'none: the agent waits for a job bundle.install --activate, whose bundle it keeps',
  }),
  id: Id.describe('name of this device in its fleet'),
  bridges: z
    .array(bridgeUrl)
    .min(1)
    .refine((urls) => new Set(urls).size === urls.length, 'names the same bridge twice')
    .optional()
    .meta({
      flag: 'bridge',
      description:
        'MQTT URL of a bridge: mqtt://host (port 1883), mqtts://host (port 8883) or, on its HTTP port, wss://host and ws://host; several nodes of one broker with commas; repeat it for bridges that take over when one fails',
      fallback: 'where this device is enrolled, else mqtt://127.0.0.1:1883',
    }),
  dataUrl: z
    .url({ protocol: /^wss?$/, error: 'must be a URL like ws://127.0.0.1:7070/v1/data' })
    .optional()
    .meta({
      description: "URL of the bridge's data plane as seen from this device (a tunnel, a forwarded port)",
      fallback: 'where this device enrolled, else as the bridge announces it',
    }),
  bundleSources: z
    .array(
      z.url({ protocol: /^https?$/, error: 'must be a URL like http://10.0.0.6:8080' }).transform((url) => new URL(url).origin),
    )
    .min(1)
    .optional()
    .meta({
      flag: 'bundle-source',
      description: 'server from which bundle.install may download besides the bridge, also in a private network; repeatable',
      fallback: 'servers with public addresses',
    }),
  trustedKeys: z.array(PublicKey).min(1).optional().meta({
    flag: 'trusted-key',
    description:
      'public key, as "brim bundle keygen" prints it, by which bundles and releases that jobs install must be signed; repeatable',
    fallback: 'none: bundles need no signature, and no release is installed',
  }),
  slms: z.array(nonEmpty).min(1).optional().meta({
    fleet: true,
    flag: 'slm',
    description:
      'folder or model id of a small whole model, which expands sketches; the first also answers, in the modes local, cheap, fast and auto, and for requests with --fallback slm where no bridge can; repeatable',
    fallback: 'none, but installed ones expand sketches',
  }),
  slmProvider: ProviderName.optional().meta({
    fleet: true,
    description: 'what computes small models, by name as of --provider',
    fallback: 'as --provider',
  }),
  embedding: nonEmpty.optional().meta({
    description: 'folder of a bundle of "brim model build --embedding", which answers /v1/embeddings on this device',
    fallback: 'none',
  }),
  slmServer: SlmServerConfig.optional(),
  picePrompts: nonEmpty.optional().meta({
    description: 'JSON file with the texts that ask for expansions, for small models whose folder has none (docs/sketches.md)',
    fallback: 'texts for any model that follows instructions',
  }),
  dispatch: DispatchConfig.prefault({}),
  server: ServerConfig.optional(),
  budget: BudgetConfig.prefault({}),
  privacy: PrivacyConfig.prefault({}),
  disclosures: DisclosuresConfig.prefault({}),
  fleet: processFields.fleet,
  /** Folder of the agent's databases and key; created when missing. */
  stateDir: nonEmpty,
  apiHost: nonEmpty
    .default('127.0.0.1')
    .describe("address of this device's API; beyond loopback it requires --api-key-file and --api-allow-host"),
  apiPort: z.int().min(0).max(65_535).default(7071).describe("port of this device's API; 0: any free port"),
  apiKeyFile: nonEmpty.optional().meta({
    description: "file with the keys of this device's API, one a line; a client sends one as bearer token",
    fallback: 'no key needed',
  }),
  apiAllowedHosts: z.array(z.string().transform(hostName)).min(1).optional().meta({
    flag: 'api-allow-host',
    description: "host in the URL by which clients call this device's API, such as host.docker.internal; repeatable",
    fallback: 'localhost, 127.0.0.0/8 and ::1',
  }),
  apiAllowedOrigins: z.array(WebOrigin).min(1).optional().meta({
    flag: 'api-allow-origin',
    description: "origin of a web page that may call this device's API (CORS), such as https://chat.example.org; repeatable",
    fallback: 'none',
  }),
  threads: processFields.threads,
  provider: processFields.provider,
  library: processFields.library,
  draft: z
    .strictObject({
      drafter: z
        .enum(drafterNames)
        .meta({
          fleet: true,
          flag: 'drafter',
          description:
            'what drafts tokens; auto: the fastest in each session; slm: the small model of --slm, if it has the tokenizer',
        })
        .default('auto'),
      ahead: z
        .boolean()
        .meta({
          fleet: true,
          description: 'draft on while a verification is under way; --no-draft-ahead saves power',
        })
        .default(true),
      threshold: z.number().min(0).max(1).optional().meta({
        fleet: true,
        description: 'probability below which a token ends a draft (η of HAT)',
        fallback: 'drafts end where another token gains less than it costs, as measured',
      }),
      limit: z.int().min(0).optional().meta({
        fleet: true,
        description: 'max tokens of a draft, where the bridge allows as many; 0: no drafting',
        fallback: 'that of the bridge',
      }),
    })
    .prefault({}),
  wire: z
    .enum(wires)
    .default('fp16c')
    .describe(
      'format of hidden states: fp16, coded without loss where bundle and bridge have tables (fp16c), or int8 on the way up: half the bytes, each value off by at most 1/254 of the largest of its row, and answers may change',
    ),
  padding: z.boolean().optional().meta({
    description: 'pad verifications to one length, which hides how much was drafted',
    fallback: 'yes where the link is encrypted',
  }),
  hatIntervalMs: z.number().min(5).max(10_000).optional().meta({
    flag: 'hat-interval',
    description:
      'ms between verifications: one is sent at each, or a cover of the same length, and prompts go in frames of one length, so that sizes and times of frames tell only how long a private answer takes',
    fallback: 'as soon as each is ready',
  }),
  patienceS: z.number().min(0).max(maxIntervalS).default(20).meta({
    fleet: true,
    flag: 'patience',
    description: 'seconds that an interrupted answer waits for a bridge before it fails',
  }),
  telemetryS: seconds
    .default(10)
    .meta({ fleet: true, flag: 'telemetry', description: 'seconds between telemetry messages; 0: no telemetry' }),
  /** By name of a figure, or the end of it (its unit): a change within the dead band does not cause a message. */
  deadBands: z
    .record(z.string(), z.strictObject({ part: nonNegative(0), amount: nonNegative(0) }))
    .refine((bands) => Object.keys(bands).every(isFigure), {
      error: ({ input }) =>
        `no figure of the telemetry ends with "${Object.keys(input as object).find((name) => !isFigure(name))}"`,
    })
    .default({}),
  heartbeatS: seconds.default(30).meta({
    fleet: true,
    flag: 'heartbeat',
    description: "seconds after which this device's state is published again, up to 86,400; 0: only when it changes",
  }),
  reconnectMaxS: z.number().min(1).max(3_600).default(30).meta({
    fleet: true,
    flag: 'reconnect-max',
    description: 'max seconds, up to 3,600, between two attempts to reach a bridge; a fleet of thousands takes longer to return',
  }),
  spoolMb: z
    .number()
    .min(1)
    .max(65_536)
    .default(64)
    .meta({ fleet: true, description: 'max size of telemetry stored while no bridge is connected, in MB' }),
  spoolDays: z
    .number()
    .positive()
    .max(3_650)
    .default(7)
    .meta({ fleet: true, description: 'max age of stored telemetry, in days' }),
  limits: AgentLimits.prefault({}),
  record: processFields.record,
  drainS: processFields.drainS,
  otlpEndpoint: processFields.otlpEndpoint,
  logLevel: processFields.logLevel,
  log: processFields.log,
})

export const AgentConfig = AgentFields.refine(
  ({ dataUrl, bridges }) => dataUrl === undefined || bridges === undefined || bridges.length === 1,
  { message: 'is allowed with one bridge only', path: ['dataUrl'] },
)
  .refine(({ budget, server }) => budget.dollars === undefined || server?.price !== undefined, {
    message: 'needs the price of the server: --server-price',
    path: ['budget', 'dollars'],
  })
  .refine(({ dispatch, server }) => dispatch.mode !== 'cloud' || server !== undefined, {
    message: 'cloud needs a server: --server',
    path: ['dispatch', 'mode'],
  })
  .refine(({ privacy, server }) => privacy.attestation === undefined || server?.at !== 'bridge', {
    message: 'cannot be the bridge with --require-attestation: the text of its questions goes there by HTTP, without evidence',
    path: ['server'],
  })
  .refine(({ dispatch, server }) => dispatch.mode !== 'sketch' || server?.at === 'bridge', {
    message: 'sketch needs the bridge as server: --server bridge',
    path: ['dispatch', 'mode'],
  })
export type AgentConfig = z.infer<typeof AgentConfig>
/** Fields with defaults are optional. */
export type AgentSettings = z.input<typeof AgentConfig>

/** @throws BrimError CONFIG_INVALID naming every field that is wrong */
export const readAgentConfig = (settings: AgentSettings): AgentConfig => parseConfig(AgentConfig, settings, 'brim agent run')
