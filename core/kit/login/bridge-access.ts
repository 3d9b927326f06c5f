import { z } from 'zod'
import { BrimError } from '../base/errors.ts'
import type { BridgeAddress } from '../base/http-client.ts'
import type { Io } from '../base/io.ts'
import { readPrivate } from '../base/private-file.ts'
import { readLogins } from './logins.ts'

export const localBridge = 'http://127.0.0.1:7070'

/** Address of a bridge, and the credentials for it. */
export interface BridgeAccess extends BridgeAddress {
  readonly pin?: string | undefined
  readonly key?: string | undefined
}

/** Of every command that manages a bridge over HTTP. */
export const bridgeOptions = {
  bridgeUrl: z
    .string()
    .optional()
    .meta({
      alias: 'bridge',
      description: 'HTTP URL of the bridge, or the name of a login',
      fallback: `the current login, else ${localBridge}`,
    }),
  keyFile: z
    .string()
    .optional()
    .meta({ description: 'file with an API key of the bridge; -: standard input', fallback: 'the key of the login' }),
}
export type BridgeOptions = z.output<z.ZodObject<typeof bridgeOptions>>

/** Options take precedence over the login. @throws BrimError USAGE, IDENTITY_INVALID */
export async function accessOf({ bridgeUrl, keyFile }: BridgeOptions, io: Io): Promise<BridgeAccess> {
  const { current, logins } = readLogins(io)
  const key = keyFile === undefined ? {} : { key: await readKey(keyFile, io) }
  if (bridgeUrl === undefined) return { ...(logins[current ?? ''] ?? { url: localBridge }), ...key }
  const named = Object.hasOwn(logins, bridgeUrl) ? logins[bridgeUrl] : undefined
  if (named) return { ...named, ...key }
  const url = bridgeUrlOf(bridgeUrl)
  // A login's key is sent only to the bridge it was created for.
  const known = Object.values(logins).find((login) => bridgeUrlOf(login.url) === url)
  return { ...(known ?? { url }), ...key }
}

/** @throws BrimError USAGE */
export function bridgeUrlOf(text: string): string {
  if (!URL.canParse(text) || !/^https?:/.test(text))
    throw new BrimError('USAGE', `--bridge-url ${text} is neither a URL nor the name of a login`, {
      hint: `give its HTTP URL, for example ${localBridge}; "brim login --name …" stores one under a name`,
    })
  return text.replace(/\/$/, '')
}

/** @param file `-`: standard input. @throws BrimError USAGE where it cannot be read, or other users can read it */
export async function readKey(file: string, io: Io): Promise<string> {
  const text = file === '-' ? await io.stdin() : readPrivate(file, { code: 'USAGE', what: 'key file' })
  return text.trim()
}
