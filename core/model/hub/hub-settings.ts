import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { BrimError } from '../../kit/base/errors.ts'
import type { Io } from '../../kit/base/io.ts'
import { isLoopback } from '../../kit/base/loopback.ts'
import { cacheHome } from '../../kit/base/state-home.ts'

export interface HubSettings {
  /** Without a slash at its end. */
  readonly endpoint: string
  /** Sent to the endpoint's origin only. */
  readonly token: string | undefined
  /** Folder of downloaded models. */
  readonly folder: string
}

const publicHub = 'https://huggingface.co'

/**
 * The settings that Hugging Face's own tools read: HF_ENDPOINT, and the token of HF_TOKEN or of the file that they write.
 * @throws BrimError CONFIG_INVALID
 */
export function hubSettings(io: Io): HubSettings {
  const { env } = io
  const endpoint = (env.HF_ENDPOINT || publicHub).replace(/\/+$/, '')
  const { protocol, hostname } = URL.canParse(endpoint) ? new URL(endpoint) : { protocol: '', hostname: '' }
  if (protocol !== 'https:' && protocol !== 'http:')
    throw new BrimError('CONFIG_INVALID', `HF_ENDPOINT is not an HTTP address: ${endpoint}`, {
      hint: `give one such as ${publicHub}, or unset it`,
    })
  const tokenFile = env.HF_TOKEN_PATH || join(env.HF_HOME || join(cacheHome(io), 'huggingface'), 'token')
  // Anyone on the way could read it.
  const isPrivate = protocol === 'https:' || isLoopback(hostname)
  const token = isPrivate ? env.HF_TOKEN?.trim() || readToken(tokenFile) : undefined
  return { endpoint, token, folder: join(cacheHome(io), 'brim', 'models') }
}

function readToken(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim() || undefined
  } catch (cause) {
    if (['ENOENT', 'ENOTDIR'].includes((cause as NodeJS.ErrnoException).code ?? '')) return undefined
    throw new BrimError('CONFIG_INVALID', `the hub's token ${path} cannot be read`, {
      cause,
      hint: 'is it readable by this user?',
    })
  }
}
