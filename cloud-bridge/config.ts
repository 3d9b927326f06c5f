import { z } from 'zod'
import { BrimError } from '../core/base/errors.ts'
import { idPattern } from '../core/protocol/topics.ts'

const id = z.string().regex(idPattern, 'small letters, digits, - and _')
const port = z.int().min(0).max(65_535)

const BrokerConfig = z
  .strictObject({
    url: z
      .url({ protocol: /^mqtts?$/, error: 'a URL like mqtt://127.0.0.1:1883' })
      .refine((url) => !url.includes('@'), 'no name or password in it: they belong into a file'),
    /** Name and password of the administrator of its dynamic-security plug-in (mosquitto). */
    adminFile: z.string().min(1).optional(),
    /** What it shows when it asks this bridge who may do what (EMQX, VerneMQ). */
    hookSecretFile: z.string().min(1).optional(),
  })
  .refine(({ adminFile, hookSecretFile }) => adminFile === undefined || hookSecretFile === undefined, {
    message: 'a broker is either driven or asks: adminFile or hookSecretFile',
  })
export type BrokerConfig = z.infer<typeof BrokerConfig>

export const BridgeConfig = z
  .strictObject({
    id: id.default('bridge-1'),
    fleet: id.default('default'),
    /** Folder of the bundle whose middle part is served. */
    bundle: z.string().min(1),
    /** Folder whose subfolders are bundles that devices may install, beside that one. */
    bundles: z.string().min(1).optional(),
    /** Folder of the bridge's database; made where missing. */
    stateDir: z.string().min(1),
    host: z.string().default('127.0.0.1'),
    /** Whether devices must prove who they are; absent: beyond loopback, or where one has enrolled. */
    auth: z.boolean().optional(),
    /** PEM files for MQTT, WebSocket and HTTP alike; read again when they change. */
    tls: z.strictObject({ cert: z.string().min(1), key: z.string().min(1) }).optional(),
    /** Whether all may travel in plain text beyond loopback. */
    plaintext: z.boolean().default(false),
    /** The control plane's broker where it is not the one in this process. */
    broker: BrokerConfig.optional(),
    /** 0: a free one. */
    mqttPort: port.default(1883),
    httpPort: port.default(7070),
    /** Where devices are told to find the data plane: a proxy or a forwarded port before this bridge; absent: as bound. */
    dataUrl: z.url({ protocol: /^wss?$/, error: 'a URL like ws://127.0.0.1:7070/v1/data' }).optional(),
    /** Threads within one operator. */
    threads: z.int().min(1).max(256).default(2),
    /** P of HAT Eq. 3: stages that the middle's layers are cut into, each of which can work on a step of its own. */
    pipeline: z.int().min(1).default(1),
    /** Path of a libonnxruntime to use instead of the one that comes with the packages. */
    library: z.string().optional(),
    /** Tokens of one step of all sessions together. */
    tokenBudget: z.int().min(1).default(512),
    /** Of them those of prompts, while others decode. */
    promptTokens: z.int().min(1).default(128),
    /** The most rows that one frame may bring, in as many steps as it takes; absent: a step's. */
    frameTokens: z.int().min(1).optional(),
    /** What devices are advised: tokens of a prompt per frame, most tokens drafted per round. */
    chunkTokens: z.int().min(1).default(128),
    draftLimit: z.int().min(0).default(8),
    /** KV memory of all sessions together. */
    kvBudgetBytes: z
      .int()
      .min(1)
      .default(2 * 2 ** 30),
    /** A session without frames for so long ends. */
    sessionIdleS: z.number().positive().default(120),
    /** What a session's end leaves for the next prompt that begins alike stands ready for so long; 0: nothing is kept. */
    prefixKeepS: z.number().min(0).default(300),
    /** Of each device's telemetry so many samples are kept, about 2 KB each; a day of them at 10 s. 0: none. */
    telemetrySamples: z.int().min(0).default(8_640),
    sessionsPerConnection: z.int().min(1).default(64),
    /** What is kept of finished jobs, keys and history too: how long, of those that came to nothing longer, how many, how much. */
    jobs: z
      .strictObject({
        keepS: z
          .number()
          .positive()
          .default(7 * 86_400),
        keepDeadS: z
          .number()
          .positive()
          .default(30 * 86_400),
        keepCount: z.int().min(1).default(100_000),
        keepBytes: z
          .int()
          .min(1)
          .default(4 * 2 ** 30),
      })
      .prefault({}),
    logLevel: z.enum(['silent', 'error', 'warn', 'info', 'debug']).default('info'),
  })
  .transform(({ frameTokens, ...config }) => ({ ...config, frameTokens: frameTokens ?? config.tokenBudget }))
  .refine(({ chunkTokens, draftLimit, tokenBudget }) => chunkTokens <= tokenBudget && draftLimit < tokenBudget, {
    message: 'chunkTokens and draftLimit + 1 must fit into tokenBudget',
    path: ['tokenBudget'],
  })
  .refine(({ chunkTokens, draftLimit, frameTokens }) => chunkTokens <= frameTokens && draftLimit < frameTokens, {
    message: 'chunkTokens and draftLimit + 1 must fit into frameTokens',
    path: ['frameTokens'],
  })
export type BridgeConfig = z.infer<typeof BridgeConfig>
/** What must be said; the rest has defaults. */
export type BridgeSettings = z.input<typeof BridgeConfig>

/** @throws BrimError CONFIG_INVALID naming every field that is wrong */
export function readBridgeConfig(settings: BridgeSettings): BridgeConfig {
  const config = BridgeConfig.safeParse(settings)
  if (config.success) return config.data
  const wrong = config.error.issues.map((issue) => [issue.path.join('.'), issue.message].filter(Boolean).join(': '))
  throw new BrimError('CONFIG_INVALID', `the bridge's configuration is wrong: ${wrong.join('; ')}`, {
    hint: 'brim bridge run --help lists the options and their ranges',
  })
}
