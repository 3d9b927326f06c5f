import { z } from 'zod'
import { apiBaseUrl } from '../core/answer/upstream/base-url.ts'
import { nonEmpty, off } from '../core/kit/base/setting-kinds.ts'

const maxServers = 64

const Url = z
  .url({ protocol: /^https?$/, error: 'must be a URL like http://127.0.0.1:8000/v1' })
  .refine((url) => !url.includes('@'), 'must not contain a name or password: a key belongs in a file')
  .transform(apiBaseUrl)

/** Settings after a URL. */
const OwnSettings = z.strictObject({
  model: nonEmpty.optional(),
  weight: z.coerce.number().min(0.01).max(1_000).default(1),
  'key-file': nonEmpty.optional(),
  continues: z.enum(['true', 'false']).optional(),
})

const noSettings = OwnSettings.parse({})

/** Its URL, then settings of its own, as in `http://10.0.0.8:8000 model=a,b weight=2`. */
function parseServer(text: string) {
  const [first = '', ...rest] = text.split(/\s+/)
  const own = Object.fromEntries(rest.map((setting) => setting.split(/=(.*)/s)))
  return { url: Url.safeParse(first), own: OwnSettings.safeParse(own) }
}

const ServerText = z.string().superRefine((text, context) => {
  const { url, own } = parseServer(text)
  for (const { path, message } of [...(url.error?.issues ?? []), ...(own.error?.issues ?? [])])
    context.addIssue({ code: 'custom', message: [...path.map(String), message].join(': ') })
})

/** Servers with OpenAI's API that make answers for clients. */
export const UpstreamFields = z
  .strictObject({
    url: z.union([z.array(ServerText).min(1).max(maxServers), ServerText]).meta({
      flag: 'upstream',
      description:
        'URL of a server with OpenAI\'s API that makes answers for clients, beside the bundle or without one. Repeat it for several, each as "URL model=a,b weight=2 key-file=FILE continues=true" where it differs from the options below (docs/operating.md)',
      fallback: 'none',
    }),
    model: nonEmpty.optional().meta({
      description: 'names of their models, separated by commas, by which clients ask for them too',
      fallback: 'none',
    }),
    keyFile: nonEmpty
      .optional()
      .meta({ description: 'file with the API key for these servers, readable by its owner only', fallback: 'no key' }),
    continues: off.describe(
      'these servers go on after a last message of the assistant (vLLM, SGLang, llama.cpp): requests may have the beginning of an answer',
    ),
  })
  .superRefine((fields, context) => {
    const servers = upstreamServersOf(fields)
    const same = servers.find(({ url }, at) => servers.findIndex((other) => other.url === url) !== at)
    if (same) context.addIssue({ code: 'custom', path: ['url'], message: 'names a server twice' })
    if (servers.some(({ models }) => models.length === 0))
      context.addIssue({ code: 'custom', path: ['model'], message: 'is missing: the name of the model of --upstream' })
  })

/** The settings of each server. @param fields valid */
export function upstreamServersOf({ url, model, keyFile, continues }: z.infer<typeof UpstreamFields>) {
  return [url].flat().map((text) => {
    const server = parseServer(text)
    const own = server.own.data ?? noSettings
    return {
      url: server.url.data ?? text,
      models: [...new Set((own.model ?? model ?? '').split(',').filter((name) => name !== ''))],
      weight: own.weight,
      keyFile: own['key-file'] ?? keyFile,
      continues: own.continues === undefined ? continues : own.continues === 'true',
    }
  })
}
