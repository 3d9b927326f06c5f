import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { CommandModule } from 'yargs'
import { BrimError } from '../../core/base/errors.ts'
import type { Io } from '../../core/base/io.ts'
import { isLoopback } from '../../core/base/loopback.ts'
import { pinOf } from '../../core/base/tls-pin.ts'
import { invitationText } from '../../core/protocol/identity.ts'
import { idPattern } from '../../core/protocol/topics.ts'
import { type AdministrationOptions, administer, administrationOptions } from './administration.ts'
import { columns } from './columns.ts'

interface TokenOptions extends AdministrationOptions {
  json?: boolean | undefined
}

/** `brim bridge token …` */
export function tokenCommand(io: Io): CommandModule {
  return {
    command: 'token <verb>',
    describe: 'what devices enrol with: create, list, revoke',
    builder: (yargs) =>
      yargs
        .usage('Usage: brim bridge token <verb> [options]')
        .example('brim bridge token create --approve > token', 'for one device, within a day')
        .example('brim bridge token list', 'which are still good, and for what')
        .command(createCommand(io))
        .command(listCommand(io))
        .command(revokeCommand(io))
        .demandCommand(1, 'say what to do with tokens: brim bridge token --help'),
    handler: () => {},
  }
}

interface CreateOptions extends TokenOptions {
  url?: string | undefined
  'tls-cert'?: string | undefined
  group: string
  uses: number
  expires: string
  approve: boolean
}

function createCommand(io: Io): CommandModule<object, CreateOptions> {
  return {
    command: 'create',
    describe: 'print a new token: a secret, kept nowhere',
    builder: (yargs) =>
      yargs
        .usage('Usage: brim bridge token create [options]')
        .example('brim bridge token create > token', 'for one device, within a day; an operator approves it')
        .example('brim bridge token create --approve --uses 20 --expires 7d --group lab > token', 'for twenty devices')
        .option('url', {
          type: 'string',
          describe: "the bridge's HTTP address as devices see it [that of --bridge-url or the login, else http://127.0.0.1:7070]",
        })
        .option('tls-cert', {
          type: 'string',
          describe:
            "the bridge's certificate, where devices' systems do not trust it: its key alone is trusted, and may not change [what the login has pinned]",
        })
        .option('group', { type: 'string', default: 'default', describe: 'group that its devices belong to' })
        .option('uses', { type: 'number', default: 1, describe: 'devices that may enrol with it' })
        .option('expires', { type: 'string', default: '24h', describe: 'how long it is good for: 30m, 24h, 7d' })
        .option('approve', { type: 'boolean', default: false, describe: 'its devices need no approval of their own' })
        .options(administrationOptions),
    handler: async ({ json, url: said, 'tls-cert': cert, group, uses, expires, approve, ...options }) => {
      if (said !== undefined && (!/^https?:\/\/[^/]/.test(said) || !URL.canParse(said)))
        throw usage(`--url ${said} is no address like http://bridge:7070`)
      if (!idPattern.test(group)) throw usage(`--group ${group}: small letters, digits, - and _`)
      if (!Number.isInteger(uses) || uses < 1) throw usage('--uses is a whole number of 1 or more')
      const shown = cert === undefined ? undefined : pinOfFile(cert)
      const wish = { group, uses, approve, expiresS: secondsOf(expires) }
      const { token, secret, at } = await administer(options, io, async (admin, at) => ({
        ...(await admin.createToken(wish)),
        at,
      }))
      const url = said ?? at?.url ?? 'http://127.0.0.1:7070'
      const pin = shown ?? at?.pin
      const text = invitationText({ url, id: token.id, secret, ...(pin === undefined ? {} : { pin }) })
      if (json) return io.out(JSON.stringify({ ...token, url, token: text }))
      io.out(text)
      io.err(`token ${token.id} for ${uses === 1 ? 'one device' : `${uses} devices`} of group ${group}, until ${token.expiresAt}`)
      if (url.startsWith('http:') && !isLoopback(new URL(url).hostname))
        io.err('  warning: it will travel in plain text, and whoever reads it there may enrol in its place')
      io.err('  on the device: brim agent enroll --id <name> --token-file <file with that line>')
    },
  }
}

function listCommand(io: Io): CommandModule<object, TokenOptions> {
  return {
    command: 'list',
    describe: 'the tokens that were made, without their secrets',
    builder: (yargs) =>
      yargs.example('brim bridge token list', 'which are still good, and for what').options(administrationOptions),
    handler: async ({ json, ...options }) => {
      const tokens = await administer(options, io, (admin) => admin.tokens())
      if (json) return io.out(JSON.stringify({ tokens }))
      const rows = tokens.map(({ id, group, usesLeft, approve, expiresAt, revokedAt }) => {
        const state = revokedAt === null ? `until ${expiresAt}` : `revoked ${revokedAt}`
        return [id, group, String(usesLeft), approve ? 'yes' : 'no', state]
      })
      io.out(columns([['TOKEN', 'GROUP', 'USES LEFT', 'APPROVES', 'STATE'], ...rows]))
    },
  }
}

function revokeCommand(io: Io): CommandModule<object, TokenOptions & { token: string }> {
  return {
    command: 'revoke <token>',
    describe: 'nobody enrols with it any more; who has, stays',
    builder: (yargs) =>
      yargs
        .example('brim bridge token revoke 3f9a11c0', 'as "brim bridge token list" names it')
        .positional('token', { type: 'string', demandOption: true, describe: 'its name in the list' })
        .options(administrationOptions),
    handler: async ({ json, token, ...options }) => {
      await administer(options, io, (admin) => admin.revokeToken(token))
      io.out(json ? JSON.stringify({ id: token, revoked: true }) : `token ${token} revoked`)
    },
  }
}

const usage = (message: string) => new BrimError('USAGE', message, { hint: 'brim bridge token create --help shows examples' })

/** @throws BrimError USAGE */
function pinOfFile(path: string): string {
  try {
    return pinOf(new X509Certificate(readFileSync(path)).publicKey)
  } catch (cause) {
    throw new BrimError('USAGE', `${path} is no certificate that can be read`, { cause, hint: 'a PEM file' })
  }
}

/** @throws BrimError USAGE */
function secondsOf(text: string): number {
  const [, count, unit] = /^(\d{1,6})([mhd])$/.exec(text) ?? []
  if (count === undefined || Number(count) < 1) throw usage(`--expires ${text}: a number with m, h or d, as 30m, 24h or 7d`)
  return Number(count) * (unit === 'm' ? 60 : unit === 'h' ? 3_600 : 86_400)
}
