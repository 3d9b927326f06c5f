import { z } from 'zod'
import { logFormats } from '../../kit/base/log-text.ts'
import { nonEmpty } from '../../kit/base/setting-kinds.ts'
import { ProviderName } from './computing.ts'
import { Id } from './id.ts'

const provider = z
  .strictObject({
    name: ProviderName.default('auto').meta({
      fleet: true,
      flag: 'provider',
      description:
        'what computes models: auto (a GPU that a trial in a process of its own finds correct and faster, else the CPU), cpu, webgpu, cuda, or the name of a provider of ONNX Runtime',
    }),
    /** As VK_DRIVER_FILES. */
    driverFiles: z.string().optional(),
    plugin: nonEmpty.optional().meta({
      description: 'library of that provider, a plug-in of ONNX Runtime',
      fallback: 'that of ONNX Runtime, or of this package',
    }),
    options: z
      .array(z.string().regex(/^[^=]+=/, 'must be like deviceId=1'))
      .optional()
      .meta({ flag: 'provider-option', description: 'setting of the provider as name=value; repeatable', fallback: 'none' }),
    compute: z.enum(['fp32', 'fp16']).optional().meta({
      description: 'what a GPU computes in, and the type of weights and KV there',
      fallback: 'fp16 for cuda, or where auto finds it correct, else fp32',
    }),
  })
  .prefault({})

/** Settings that agent and bridge both have, with one meaning and one default. */
export const processFields = {
  fleet: Id.default('default').describe('name of the fleet'),
  threads: z.int().min(1).max(256).default(2).meta({ fleet: true, description: 'threads per operator' }),
  provider,
  /** Path of a libonnxruntime to use instead of the packaged one. */
  library: z.string().optional(),
  record: nonEmpty.optional().meta({
    description: 'file for what the process decides and from what inputs, without text, for "brim simulate replay"',
    fallback: 'none',
  }),
  otlpEndpoint: z
    .url({ protocol: /^https?$/, error: 'must be a URL like http://127.0.0.1:4318' })
    .refine((url) => !url.includes('@'), 'must not contain a name or password: OTEL_EXPORTER_OTLP_HEADERS has them')
    .optional()
    .meta({
      description:
        'URL of an OpenTelemetry collector (OTLP over HTTP), which gets spans of requests, without text (docs/tracing.md)',
      fallback: 'OTEL_EXPORTER_OTLP_ENDPOINT, else none',
    }),
  drainS: z.number().min(0).max(3_600).default(30).meta({
    flag: 'drain-seconds',
    description:
      'on SIGTERM, max seconds for answers and jobs in progress to end; nothing new begins, and a second signal ends at once',
  }),
  logLevel: z
    .enum(['silent', 'error', 'warn', 'info', 'debug'])
    .default('warn')
    .meta({ fleet: true, description: 'log level on stderr' }),
  log: z
    .strictObject({
      format: z
        .enum(logFormats)
        .optional()
        .meta({ description: 'format of log lines on stderr', fallback: 'text on a terminal, else json' }),
      /** Lines start with their priority, for journald. */
      priorities: z.boolean().default(false),
    })
    .prefault({}),
}
