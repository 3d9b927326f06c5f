import type { CommandModule } from 'yargs'
import { z } from 'zod'
import { BrimError } from '../../core/base/errors.ts'
import type { Io } from '../../core/base/io.ts'
import { isLoopback } from '../../core/base/loopback.ts'
import { idPattern } from '../../core/protocol/topics.ts'
import { whoamiPath } from '../api/admin.ts'
import { type BridgeOptions, bridgeClient, bridgeOptions, bridgeUrlOf, readKey } from './bridge-access.ts'
import { BridgeClient } from './bridge-client.ts'
import { addLogin, readLogins, removeLogin } from './logins.ts'

const left = z.number().nullable()
const Whoami = z.looseObject({
  id: z.string(),
  name: z.string(),
  role: z.string(),
  bridge: z.string(),
  quota: z.object({ requestsPerMinute: left, requestsLeft: left, jobsPerDay: left, jobsLeft: left }),
})

interface LoginOptions {
  'bridge-url': string
  'key-file': string
  name: string
  pin?: string | undefined
  json?: boolean | undefined
}

/** `brim login` */
export function loginCommand(io: Io): CommandModule<object, LoginOptions> {
  return {
    command: 'login',
    describe: 'keep the key of a bridge for the commands that follow',
    builder: (yargs) =>
      yargs
        .usage('Usage: brim login --bridge-url <url> [--key-file <file>|-] [options]')
        .example('brim login --bridge-url http://127.0.0.1:7070 --key-file key', 'with what "brim bridge key create" has printed')
        .example(
          'ssh bridge brim bridge key create --name sam --role admin | brim login --bridge-url …',
          'no key on disk but here',
        )
        .example('brim login --bridge-url https://10.0.0.5:7070 --pin kQ3v… < key', 'a certificate that nobody has signed')
        .example('brim login --bridge-url https://prod:7070 --name prod < key', 'then brim job list --bridge-url prod')
        .option('bridge-url', { ...bridgeOptions['bridge-url'], demandOption: true, describe: "the bridge's HTTP address" })
        .option('key-file', { type: 'string', nargs: 1, default: '-', describe: 'file with the key; -: standard input' })
        .option('name', { type: 'string', requiresArg: true, default: 'default', describe: 'name of this login' })
        .option('pin', {
          type: 'string',
          requiresArg: true,
          describe: 'of the key of its certificate, as "brim bridge run" prints it [what this system trusts]',
        }),
    handler: async ({ 'bridge-url': bridgeUrl, 'key-file': keyFile, name, pin, json }) => {
      const url = bridgeUrlOf(bridgeUrl)
      if (!idPattern.test(name)) throw usage(`--name ${name}: small letters, digits, - and _`)
      if (pin !== undefined && !/^[\w-]{43}$/.test(pin)) throw usage('--pin has 43 characters: letters, digits, - and _')
      if (pin !== undefined && !url.startsWith('https:')) throw usage('--pin is of a certificate: give an address with https:')
      if (keyFile === '-' && io.errIsTty) io.err('the key, then Ctrl-D:')
      const login = { url, key: await readKey(keyFile, io), ...(pin === undefined ? {} : { pin }) }
      // Nothing that is no header value leaves this machine.
      if (!/^[\w.-]+$/.test(login.key)) throw usage('that is no key: "brim bridge key create" prints one, in one line')
      const who = Whoami.parse(await new BridgeClient(login, io.signal).get(whoamiPath))
      addLogin(io, name, login)
      if (json) return io.out(JSON.stringify({ login: name, url, ...who }))
      io.out(`logged in at ${url} (bridge ${who.bridge}) as ${who.name}, ${who.role}`)
      if (url.startsWith('http:') && !isLoopback(new URL(url).hostname))
        io.err('  warning: the key travels in plain text, and whoever reads it there may use it')
    },
  }
}

/** `brim logout` */
export function logoutCommand(io: Io): CommandModule<object, { name?: string | undefined; json?: boolean | undefined }> {
  return {
    command: 'logout',
    describe: 'forget the key of a bridge; at the bridge it stays good until it is revoked',
    builder: (yargs) =>
      yargs
        .usage('Usage: brim logout [--name <name>]')
        .example('brim logout', 'the login that is current')
        .example('brim logout --name prod', 'another one')
        .option('name', { type: 'string', requiresArg: true, describe: 'of the login [the current one]' }),
    handler: ({ name: said, json }) => {
      const { current, logins } = readLogins(io)
      const name = said ?? current
      if (name === null || !removeLogin(io, name))
        throw new BrimError('IDENTITY_UNKNOWN', name === null ? 'nobody is logged in' : `there is no login "${name}"`, {
          hint: `logins: ${Object.keys(logins).join(', ') || 'none'}`,
        })
      io.out(json ? JSON.stringify({ login: name, removed: true }) : `login ${name} is forgotten`)
    },
  }
}

/** `brim whoami` */
export function whoamiCommand(io: Io): CommandModule<object, BridgeOptions & { json?: boolean }> {
  return {
    command: 'whoami',
    describe: "who one is at a bridge, and what is left of one's quota",
    builder: (yargs) =>
      yargs.usage('Usage: brim whoami [options]').example('brim whoami', 'at the bridge of "brim login"').options(bridgeOptions),
    handler: async ({ json, ...options }) => {
      const body = await (await bridgeClient(options, io)).get(whoamiPath)
      if (json) return io.out(JSON.stringify(body))
      const { name, role, bridge, quota } = Whoami.parse(body)
      io.out(`${name}, ${role}, at bridge ${bridge}`)
      if (quota.requestsPerMinute !== null) io.out(`requests  ${quota.requestsLeft} left of ${quota.requestsPerMinute} a minute`)
      if (quota.jobsPerDay !== null) io.out(`jobs      ${quota.jobsLeft} left of ${quota.jobsPerDay} today (UTC)`)
    },
  }
}

const usage = (message: string) => new BrimError('USAGE', message, { hint: 'brim login --help shows examples' })
