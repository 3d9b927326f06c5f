import { z } from 'zod'
import { isLoopback } from '../../../../core/kit/base/loopback.ts'
import { secretInto } from '../../../../core/kit/base/private-file.ts'
import { Duration } from '../../../../core/kit/base/setting-kinds.ts'
import { visibleLine } from '../../../../core/kit/base/visible-text.ts'
import { defineCommand } from '../../../../core/kit/cli/command.ts'
import { localBridge } from '../../../../core/kit/login/bridge-access.ts'
import { adminOperations } from '../../../../core/wire/protocol/http/admin.ts'
import { Id } from '../../../../core/wire/protocol/id.ts'
import { invitationText } from '../../../../core/wire/protocol/identity.ts'
import { administer, administrationOptions } from '../../administration.ts'
import { labelPairs } from '../../labels.ts'
import { pinOfFile } from '../../pin-of-file.ts'

export const command = defineCommand({
  examples: [
    ['brim bridge token create --out token', 'for one device, valid for a day; an operator approves the device'],
    ['brim bridge token create --approve --uses 20 --expires 7d --label site=lab --out token', 'for twenty devices with a label'],
  ],
  options: {
    url: z
      .url({ protocol: /^https?$/, hostname: /./, error: 'must be a URL like http://bridge:7070' })
      .optional()
      .meta({
        description: "the bridge's HTTP URL as devices reach it",
        fallback: `--bridge-url, else the login's, else that of the bridge on this machine, else ${localBridge}`,
      }),
    tlsCert: z.string().optional().meta({
      description: "PEM file of the bridge's certificate; devices then trust its key, whatever its issuer",
      fallback: 'the pin of the login; without --url, that of the bridge on this machine',
    }),
    group: Id.default('default').describe('group of the devices that enrol with it'),
    uses: z.int().min(1).default(1).describe('number of devices that can enrol with it'),
    expires: Duration.prefault('24h').describe('validity: 30m, 24h, 7d'),
    approve: z.boolean().default(false).describe('approve its devices as they enrol'),
    label: z
      .array(z.string())
      .optional()
      .meta({ description: 'label of the devices that enrol with it, key=value; repeatable', fallback: 'none' }),
    out: z.string().min(1).optional().meta({
      description: 'new file for the token, readable by this user only (mode 0600); the token is not printed',
      fallback: 'standard output',
    }),
    ...administrationOptions,
  },
  async run({ json, url: givenUrl, tlsCert, group, uses, expires: expiresS, approve, label = [], out, ...options }, io) {
    const givenPin = tlsCert === undefined ? undefined : pinOfFile(tlsCert)
    const create = () =>
      administer(options, io, async (admin, at) => {
        const body = { group, uses, approve, expiresS, labels: Object.fromEntries(labelPairs(label)) }
        const { token, secret } = (await admin.call(adminOperations.createToken, { body })).value
        const url = givenUrl ?? at?.url ?? localBridge
        // Another URL may lead to a proxy with a certificate of its own.
        const isProxied = givenUrl !== undefined && at?.key === undefined
        const pin = givenPin ?? (isProxied ? undefined : at?.pin)
        return { token, url, text: invitationText({ url, id: token.id, secret, ...(pin === undefined ? {} : { pin }) }) }
      })
    const { token, url, text } = await secretInto(out, create, (created) => created.text)
    if (json) return io.out(JSON.stringify({ ...token, url, ...(out === undefined ? { token: text } : { out }) }))
    if (out === undefined) io.out(text)
    const devices = uses === 1 ? 'one device' : `${uses} devices`
    io.err(visibleLine(`token ${token.id} for ${devices} of group ${group}, until ${token.expiresAt}`))
    if (url.startsWith('http:') && !isLoopback(new URL(url).hostname))
      io.err('  warning: the token travels unencrypted; anyone who reads it on the way can enrol with it')
    io.err(
      `  on the device: brim agent enroll --id <name> --token-file <${out === undefined ? 'file with this line' : 'the file'}>`,
    )
  },
})
