import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { BrimError } from '../../kit/base/errors.ts'

interface TokenizerConfig {
  readonly file: string
  /** The file's content; {} if the file does not exist. */
  readonly raw: object
  /** Special tokens by name, e.g. `bos_token`, for chat templates. */
  readonly specialTokens: Readonly<Record<string, string>>
  /** Chat templates by name; a single one is 'default'. */
  readonly chatTemplates: Readonly<Record<string, string>>
}

const Token = z.union([z.string(), z.object({ content: z.string() }).transform((token) => token.content)]).nullish()
const Config = z.object({
  bos_token: Token,
  eos_token: Token,
  unk_token: Token,
  pad_token: Token,
  chat_template: z.union([z.string(), z.array(z.object({ name: z.string(), template: z.string() }))]).nullish(),
})

/** The file may be missing. @throws BrimError TOKENIZER_INVALID naming the file */
export async function readTokenizerConfig(dir: string): Promise<TokenizerConfig> {
  const file = join(dir, 'tokenizer_config.json')
  const raw = await readJson(file)
  const config = Config.safeParse(raw)
  if (!config.success) throw invalid(file, z.prettifyError(config.error))
  const { chat_template: template, ...special } = config.data
  const specialTokens: Record<string, string> = {}
  for (const [name, token] of Object.entries(special)) if (typeof token === 'string') specialTokens[name] = token
  const list = typeof template === 'string' ? [{ name: 'default', template }] : (template ?? [])
  return { file, raw, specialTokens, chatTemplates: Object.fromEntries(list.map((entry) => [entry.name, entry.template])) }
}

async function readJson(file: string): Promise<object> {
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') return {}
    throw invalid(file, 'it cannot be read', cause)
  }
  try {
    return z.looseObject({}).parse(JSON.parse(text))
  } catch (cause) {
    throw invalid(file, 'it is not a JSON object', cause)
  }
}

function invalid(file: string, why: string, cause?: unknown): BrimError {
  const options = cause === undefined ? {} : { cause }
  return new BrimError('TOKENIZER_INVALID', `${file}: ${why}`, { ...options, hint: 'copy the file from the checkpoint again' })
}
