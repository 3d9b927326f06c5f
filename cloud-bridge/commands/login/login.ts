import { z } from 'zod'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { isLoopback } from '../../../core/kit/base/loopback.ts'
import { off } from '../../../core/kit/base/setting-kinds.ts'
import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { bridgeUrlOf, readKey } from '../../../core/kit/login/bridge-access.ts'
import { addLogin } from '../../../core/kit/login/logins.ts'
import { adminOperations } from '../../../core/wire/protocol/http/admin.ts'
import { Id } from '../../../core/wire/protocol/id.ts'
import { BridgeClient, bridgeClient } from '../bridge-client.ts'

/** `brim login` */
export const command = defineCommand({
  usage: '--bridge-url <url> [--key-file <file>|-] | --browser',
  examples: [
    ['brim login --bridge-url http://127.0.0.1:7070 --key-file key', 'with a key that "brim bridge key create" has printed'],
    [
      'ssh bridge brim bridge key create --name sam --role admin | brim login --bridge-url …',
      'stores the key on this machine only',
    ],
    ['brim login --bridge-url https://10.0.0.5:7070 --pin kQ3v… < key', 'a self-signed certificate'],
    ['brim login --bridge-url https://prod:7070 --name prod < key', 'then: brim job list --bridge-url prod'],
    ['brim login --browser', 'prints a URL that logs the browser in as the current login, once, within a minute'],
  ],
  options: {
    bridgeUrl: z.string().optional().meta({
      alias: 'bridge',
      description: 'HTTP URL of the bridge; with --browser also the name of a login',
      fallback: 'with --browser the current login, or the bridge of this machine',
    }),
    keyFile: z.string().default('-').describe('file with the API key; -: standard input'),
    browser: off.describe(
      'print a URL that logs a browser in to the page of the bridge, with the role of the login (docs/page.md)',
    ),
    name: Id.default('default').describe('name of this login'),
    pin: z
      .string()
      .regex(/^[\w-]{43}$/, 'must be 43 letters, digits, - and _')
      .optional()
      .meta({
        description: 'public key of its certificate, as "brim bridge run" prints it',
        fallback: 'the certificate authorities of this system',
      }),
  },
  async run({ bridgeUrl, keyFile, browser, name, pin, json }, io) {
    if (browser) return logBrowserIn(bridgeUrl, json, io)
    if (bridgeUrl === undefined)
      throw new BrimError('USAGE', 'a login needs --bridge-url, or --browser', { hint: 'brim login --help' })
    const url = bridgeUrlOf(bridgeUrl)
    if (pin !== undefined && !url.startsWith('https:'))
      throw new BrimError('USAGE', '--pin needs an https: URL', { hint: `is it ${url.replace('http:', 'https:')}?` })
    if (keyFile === '-' && io.errIsTty) io.err('paste the key, then press Ctrl-D:')
    const login = { url, key: await readKey(keyFile, io), ...(pin === undefined ? {} : { pin }) }
    // Text that cannot be a header value is never sent.
    if (!/^[\w.-]+$/.test(login.key))
      throw new BrimError('USAGE', 'the key is not valid', { hint: 'give the one line that "brim bridge key create" prints' })
    const { value: user } = await new BridgeClient(login, io.signal).call(adminOperations.whoami, {})
    addLogin(io, name, login)
    if (json) return io.out(JSON.stringify({ login: name, url, ...user }))
    io.out(visibleLine(`logged in at ${url} (bridge ${user.bridge}) as ${user.name}, ${user.role}`))
    if (url.startsWith('http:') && !isLoopback(new URL(url).hostname))
      io.err('  warning: the key travels unencrypted; anyone who reads it on the way can use it')
  },
})

/** The URL is printed, not opened: the arguments of a program are seen by every user of this machine. */
async function logBrowserIn(bridgeUrl: string | undefined, json: boolean, io: Io): Promise<void> {
  const client = await bridgeClient({ bridgeUrl, keyFile: undefined }, io)
  const { code, validForS } = (await client.call(adminOperations.createLogin, {})).value
  // What follows the # stays in the browser.
  const url = `${client.url}/#/login/${code}`
  if (json) return io.out(JSON.stringify({ url, validForS }))
  io.out(url)
  io.err(`  open it in a browser within ${validForS} s; it works once`)
}
