import { z } from 'zod'
import { bridgeModes } from '../core/kit/base/answer-modes.ts'
import { parseConfig } from '../core/kit/base/config.ts'
import { isLoopback } from '../core/kit/base/loopback.ts'
import { nonEmpty, nonNegative, off, on, positive, WebOrigin, whole } from '../core/kit/base/setting-kinds.ts'
import { isAddressOrNetwork } from '../core/kit/listen/proxies.ts'
import { defaultDraftLimit } from '../core/policy/hat/draft-gain.ts'
import { metricNames } from '../core/policy/pice/objectives.ts'
import { objectivesText, parseObjectives } from '../core/policy/pice/objectives-text.ts'
import { defaultPlanTerms } from '../core/policy/pice/plan-answer.ts'
import { stepDefaults } from '../core/policy/serving/step-defaults.ts'
import { policyNames } from '../core/policy/tokenflow/named-policies.ts'
import { maxCandidates } from '../core/wire/protocol/expansion.ts'
import { Id } from '../core/wire/protocol/id.ts'
import { brokerUrl } from '../core/wire/protocol/mqtt-url.ts'
import { processFields } from '../core/wire/protocol/process-fields.ts'
import { BridgeLimits } from './limits.ts'
import { UpstreamFields, upstreamServersOf } from './upstream-config.ts'

const defaultChunkTokens = 128
const port = z.int().min(0).max(65_535)

const BrokerConfig = z
  .strictObject({
    url: brokerUrl(/^mqtts?$/, 'must be a URL like mqtt://127.0.0.1:1883')
      .refine((url) => !url.includes('@'), 'must not contain a name or password: they belong in a file')
      .meta({
        flag: 'broker',
        description:
          'URL of an external MQTT broker as devices reach it: mqtt://host (port 1883) or mqtts://host (port 8883); of several nodes, with commas',
        fallback: 'a broker in this process',
      }),
    adminFile: nonEmpty.optional().meta({
      description:
        "file with <name>:<password> of the administrator of mosquitto's dynamic-security plug-in, or that of brim bridge nats-keys",
      fallback: 'none',
    }),
    hookSecretFile: nonEmpty.optional().meta({
      description: 'file with the secret that EMQX or VerneMQ send when they ask this bridge for authorization at /v1/hook',
      fallback: 'none',
    }),
  })
  .refine(({ adminFile, hookSecretFile }) => adminFile === undefined || hookSecretFile === undefined, {
    message: 'takes an administrator file or a hook secret file, not both',
  })
export type BrokerConfig = z.infer<typeof BrokerConfig>

/** Every setting of a bridge. Those with a description are options of `brim bridge run`. */
export const BridgeFields = z.strictObject({
  bundle: z
    .union([z.array(nonEmpty).min(1).max(16), nonEmpty])
    .optional()
    .meta({
      description:
        'folder of the bundle that is served; repeat it to serve several, as while the fleet changes its model: the first answers requests that name no model (docs/rollouts.md)',
      fallback: 'none: answers come from --upstream, and devices get no sessions',
    }),
  upstream: UpstreamFields.optional(),
  answers: on.describe('answer requests of clients with the whole model; without, only the middle is loaded, for devices'),
  picePrompts: nonEmpty.optional().meta({
    description: 'JSON file with the texts that ask for length and sketch, for a model whose folder has none (docs/sketches.md)',
    fallback: 'texts for any model that follows instructions',
  }),
  embedding: nonEmpty.optional().meta({
    description: 'folder of a bundle of "brim model build --embedding", which answers /v1/embeddings',
    fallback: 'none',
  }),
  bundles: nonEmpty.optional().meta({
    description: 'folder of the bundles and releases that devices install, besides --bundle; "brim bundle push" adds to it',
    fallback: 'bundles, in the state folder',
  }),
  stateDir: nonEmpty.describe("folder of the bridge's databases; created when missing"),
  database: z
    .strictObject({
      url: z.url({ protocol: /^postgres(ql)?$/, error: 'must be a URL like postgres://brim@db.example.org/brim' }).meta({
        flag: 'database',
        description:
          'URL of a PostgreSQL database that several bridges of one --id share: one is the primary, the others take over (docs/several-bridges.md)',
        fallback: 'none: SQLite in --state-dir alone',
      }),
      node: Id.optional().meta({ flag: 'node', description: 'name of this process among them', fallback: 'the host name' }),
      nodeUrl: z
        .url({ protocol: /^https?$/, error: 'must be a URL like https://10.0.0.5:7070' })
        .optional()
        .meta({ flag: 'node-url', description: 'URL by which the others reach it', fallback: 'the address it listens on' }),
    })
    .optional(),
  mqttPort: port.optional().meta({
    description: 'port of the MQTT broker in this process; 0: any free port',
    conflicts: 'broker',
    fallback: '1883, with TLS 8883',
  }),
  onePort: off.describe('no port of its own for MQTT: devices and watchers connect by WebSocket, to /mqtt on --http-port'),
  broker: BrokerConfig.optional(),
  httpPort: port.default(7070).describe('port of HTTP and of the data plane; 0: any free port'),
  dataUrl: z
    .url({ protocol: /^wss?$/, error: 'must be a URL like ws://127.0.0.1:7070/v1/data' })
    .optional()
    .meta({
      description:
        'URL of the data plane as devices reach it, if this bridge is behind a proxy; its host is then accepted in requests',
      fallback: 'the address it listens on',
    }),
  host: z.string().default('127.0.0.1').describe('address to listen on'),
  announce: off.describe(
    'announce this bridge by multicast DNS (_brim._tcp) in the network of --host: agents without a bridge then tell how to enrol; everyone there learns its name, fleet, release and TLS key',
  ),
  trustedProxies: z
    .array(z.string().refine(isAddressOrNetwork, 'must be an IP address or a network like 10.0.0.0/8'))
    .min(1)
    .optional()
    .meta({
      flag: 'trusted-proxy',
      description:
        'address or network of reverse proxies in front of --http-port: of their requests, X-Forwarded-For names the client; repeatable',
      fallback: 'none: the header is ignored',
    }),
  allowedOrigins: z.array(WebOrigin).min(1).optional().meta({
    flag: 'allow-origin',
    description: 'origin of a web page that may call the HTTP API (CORS), such as https://chat.example.org; repeatable',
    fallback: 'none: requests of other pages than its own are refused',
  }),
  deviceAnswers: on.describe(
    'answer enrolled devices that ask the models of this bridge (brim agent run --server bridge), as it does clients; they see nothing else',
  ),
  auth: z.boolean().optional().meta({
    description: 'accept only enrolled devices',
    fallback: 'yes beyond loopback, behind a proxy, and once a device has enrolled',
  }),
  /** For MQTT, WebSocket and HTTP alike. */
  tls: z
    .strictObject({
      cert: nonEmpty.meta({ description: 'PEM file of the TLS certificate, reloaded when it changes', fallback: 'none: no TLS' }),
      key: nonEmpty.meta({
        description: "PEM file of the certificate's private key, readable by its owner only",
        fallback: 'none',
      }),
    })
    .optional(),
  attestationCertificates: nonEmpty.optional().meta({
    description:
      "PEM file with the certificates of this machine's processor (VCEK or VLEK, ASK and ARK), where the bridge runs in an AMD SEV-SNP virtual machine whose host gives none: devices with --require-attestation verify its reports by them",
    fallback: 'those of the host',
  }),
  plaintext: off.describe('allow unencrypted connections beyond loopback: tokens and hidden states can be read on the way'),
  deviceKeyDays: z
    .number()
    .min(0)
    .max(3_660)
    .default(365)
    .describe('validity of device keys, in days; their agents renew them from two thirds of it on; 0: they do not expire'),
  auditLog: nonEmpty.optional().meta({
    description: 'file to which the audit log is appended, one JSON document a line; it may be renamed at any time',
    fallback: 'only the database',
  }),
  fleet: processFields.fleet,
  id: Id.default('bridge-1').describe('name of this bridge'),
  threads: processFields.threads,
  provider: processFields.provider,
  library: processFields.library,
  tokenBudget: whole(1, stepDefaults.rows).describe('max tokens that the model computes in one step, for all sessions together'),
  promptTokens: whole(1, stepDefaults.promptRows).describe(
    'max prompt tokens in a step while other sessions decode: more starts answers sooner, and slows those under way',
  ),
  servingPolicy: z
    .enum(policyNames)
    .default(stepDefaults.policy)
    .describe('which answers the model computes next: decode-first, for devices; tokenflow, by what readers have left to read'),
  answerMode: z
    .enum(bridgeModes)
    .default('auto')
    .describe(
      'mode of conversations that name none: full, by the model alone, and no device sees them; sketch, devices expand its sketch; auto, whichever is better at the present load (PICE)',
    ),
  sketchCandidates: z
    .int()
    .min(1)
    .max(maxCandidates)
    .default(1)
    .describe('expansions of each line of a sketch, of which the most confident is taken'),
  sketchObjectives: z
    .string()
    .refine((text) => parseObjectives(text), { error: `must be like ${objectivesText(defaultPlanTerms.objectives)}` })
    .default(objectivesText(defaultPlanTerms.objectives))
    .describe(
      `objectives that choose between sketch and full answer, the most important first, each with the share by which it may miss the best: ${metricNames.join(', ')}`,
    ),
  frameTokens: z.int().min(1).optional().meta({
    description: 'max prompt tokens that a device sends in one frame; a frame may take several steps',
    fallback: '--token-budget',
  }),
  chunkTokens: z.int().min(1).optional().meta({
    description:
      'prompt tokens of a chunk that a device sends before its rates are known; then the size follows from them (HAT Eq. 3), up to --frame-tokens',
    fallback: '128, or less where they do not fit',
  }),
  draftLimit: whole(0, defaultDraftLimit).describe(
    'max tokens that a device drafts for one verification; 0: devices draft nothing',
  ),
  kvBudgetBytes: whole(1, 2 * 2 ** 30).meta({ description: 'KV memory of all streams together, in bytes', fallback: '2 GiB' }),
  kvSlow: z.enum(['none', 'memory', 'file']).optional().meta({
    description:
      'where the KV of preempted streams goes: nowhere, so that it is computed again, host memory, or files in --state-dir, which answers also begin with after a restart',
    fallback: 'memory with --serving-policy tokenflow, else none',
  }),
  kvSlowBudgetBytes: whole(1, stepDefaults.slowBytes).meta({
    description: 'max size of the KV of --kv-slow, in bytes',
    fallback: '4 GiB',
  }),
  sessionIdleS: positive(120),
  prefixKeepS: nonNegative(300).meta({
    flag: 'prefix-keep',
    description:
      "seconds that an answer's KV stays cached for prompts that begin alike, with --kv-slow file also on disk; 0: no cache",
  }),
  telemetrySamples: whole(0, 8_640).describe(
    'telemetry samples retained per device, about 2 KB each; the default is a day at 10 s; 0: none',
  ),
  telemetryDeltas: on.describe(
    'devices send most telemetry as differences from a complete sample, which saves bytes; --no-telemetry-deltas: each sample is complete, for other readers of the topic such as Telegraf',
  ),
  homeAssistant: off.describe(
    'describe the devices to Home Assistant at the MQTT broker, with their figures and a switch that drains (docs/home-assistant.md); of several bridges of a fleet, one',
  ),
  /** Retention of finished jobs, their texts and their idempotency keys. */
  jobs: z
    .strictObject({
      keepDays: positive(7).meta({ flag: 'job-keep', description: 'retention of succeeded and canceled jobs, in days' }),
      keepDeadDays: positive(30).meta({
        flag: 'dead-job-keep',
        description: 'retention of failed, rejected and timed-out jobs, in days',
      }),
      keepCount: whole(1, 100_000).meta({ flag: 'job-keep-count', description: 'max finished jobs retained' }),
      keepBytes: whole(1, 4 * 2 ** 30).meta({
        flag: 'job-keep-bytes',
        description:
          'max size of the job database in bytes; beyond it the devices that store most lose their oldest finished jobs',
        fallback: '4 GiB',
      }),
    })
    .prefault({}),
  limits: BridgeLimits.prefault({}),
  record: processFields.record,
  drainS: processFields.drainS,
  otlpEndpoint: processFields.otlpEndpoint,
  logLevel: processFields.logLevel,
  log: processFields.log,
})

export const BridgeConfig = BridgeFields.transform(({ bundle = [], upstream, frameTokens, chunkTokens, kvSlow, ...config }) => {
  const maxRows = frameTokens ?? config.tokenBudget
  return {
    ...config,
    /** The first answers requests that name no model. */
    servedBundles: [bundle].flat(),
    upstreams: upstream ? upstreamServersOf(upstream) : [],
    // The other policies preempt seldom, or compute again by definition.
    kvSlow: kvSlow ?? (config.servingPolicy === 'tokenflow' ? ('memory' as const) : ('none' as const)),
    frameTokens: maxRows,
    chunkTokens: chunkTokens ?? Math.min(defaultChunkTokens, config.tokenBudget, maxRows),
  }
})
  .refine(({ chunkTokens, draftLimit, tokenBudget }) => chunkTokens <= tokenBudget && draftLimit < tokenBudget, {
    message: 'must hold a chunk (--chunk-tokens) and a draft with the token before it (--draft-limit + 1)',
    path: ['tokenBudget'],
  })
  .refine(({ chunkTokens, draftLimit, frameTokens }) => chunkTokens <= frameTokens && draftLimit < frameTokens, {
    message: 'must hold a chunk (--chunk-tokens) and a draft with the token before it (--draft-limit + 1)',
    path: ['frameTokens'],
  })
  .refine(({ servedBundles, upstreams }) => servedBundles.length > 0 || upstreams.length > 0, {
    message: 'a bridge needs a bundle (--bundle) or a server that answers for it (--upstream)',
    path: ['bundle'],
  })
  .refine(({ announce, host }) => !announce || !isLoopback(host), {
    message: 'needs an address beyond loopback: --host',
    path: ['announce'],
  })
  .refine(({ onePort, mqttPort, broker }) => !onePort || (mqttPort === undefined && broker === undefined), {
    message: 'leaves no use for --mqtt-port or --broker',
    path: ['onePort'],
  })
export type BridgeConfig = z.infer<typeof BridgeConfig>
/** Fields with defaults are optional. */
export type BridgeSettings = z.input<typeof BridgeConfig>

/** @throws BrimError CONFIG_INVALID naming every field that is wrong */
export const readBridgeConfig = (settings: BridgeSettings): BridgeConfig => parseConfig(BridgeConfig, settings, 'brim bridge run')
