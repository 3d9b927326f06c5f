import { readFile } from 'node:fs/promises'
import { BrimError } from '../../core/base/errors.ts'
import type { Io } from '../../core/base/io.ts'
import { modeOpenToOthers } from '../../core/base/private-file.ts'
import { type BridgeAccess, BridgeClient } from './bridge-client.ts'
import { readLogins } from './logins.ts'

export interface BridgeOptions {
  bridgeUrl?: string | undefined
  keyFile?: string | undefined
}

const ownBridge = 'http://127.0.0.1:7070'

/** Of every command that speaks to a bridge over HTTP. */
export const bridgeOptions = {
  'bridge-url': {
    alias: 'bridge',
    type: 'string',
    requiresArg: true,
    describe: `the bridge's HTTP address, or the name of a login [that of "brim login", else ${ownBridge}]`,
  },
  'key-file': {
    type: 'string',
    requiresArg: true,
    describe: 'a key of "brim bridge key create", where the bridge asks for one [that of "brim login"]',
  },
} as const

/** @throws BrimError USAGE, IDENTITY_INVALID */
export const bridgeClient = async (options: BridgeOptions, io: Io): Promise<BridgeClient> =>
  new BridgeClient(await accessOf(options, io), io.signal)

/** What is said counts; what is not comes from the login. @throws BrimError USAGE, IDENTITY_INVALID */
export async function accessOf({ bridgeUrl, keyFile }: BridgeOptions, io: Io): Promise<BridgeAccess> {
  const { current, logins } = readLogins(io)
  const key = keyFile === undefined ? {} : { key: await readKey(keyFile, io) }
  if (bridgeUrl === undefined) return { ...(logins[current ?? ''] ?? { url: ownBridge }), ...key }
  const named = Object.hasOwn(logins, bridgeUrl) ? logins[bridgeUrl] : undefined
  if (named) return { ...named, ...key }
  const url = bridgeUrlOf(bridgeUrl)
  // A key goes nowhere but to the bridge that it was made for.
  const known = Object.values(logins).find((login) => bridgeUrlOf(login.url) === url)
  return { ...(known ?? { url }), ...key }
}

/** @throws BrimError USAGE */
export function bridgeUrlOf(text: string): string {
  if (!URL.canParse(text) || !/^https?:/.test(text))
    throw new BrimError('USAGE', `--bridge-url ${text} is neither a URL nor the name of a login`, {
      hint: `for example ${ownBridge}`,
    })
  return text.replace(/\/$/, '')
}

/** @param file `-`: standard input. @throws BrimError USAGE where it cannot be read, or others may read it */
export async function readKey(file: string, io: Io): Promise<string> {
  if (file === '-') return (await io.stdin()).trim()
  try {
    if (modeOpenToOthers(file) !== undefined)
      throw new BrimError('USAGE', `others may read --key-file ${file}`, { hint: `chmod 600 ${file}` })
    return (await readFile(file, 'utf8')).trim()
  } catch (cause) {
    if (cause instanceof BrimError) throw cause
    throw new BrimError('USAGE', `--key-file ${file} cannot be read`, { cause })
  }
}
