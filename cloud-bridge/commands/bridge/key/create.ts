import { z } from 'zod'
import { secretInto } from '../../../../core/kit/base/private-file.ts'
import { visibleLine } from '../../../../core/kit/base/visible-text.ts'
import { defineCommand } from '../../../../core/kit/cli/command.ts'
import { adminOperations, keyRoles } from '../../../../core/wire/protocol/http/admin.ts'
import { Id } from '../../../../core/wire/protocol/id.ts'
import { administer, administrationOptions } from '../../administration.ts'

const secondsPerDay = 86_400
const limit = z.int().min(1)

export const command = defineCommand({
  examples: [
    ['brim bridge key create --name monitoring --out key', 'sent as "Authorization: Bearer <key>"'],
    ['brim bridge key create --name sam --role admin | brim login --bridge-url …', 'an operator who logs in here'],
    ['brim bridge key create --name sam --role admin --out key', 'for "brim login --key-file key" elsewhere'],
    ['brim bridge key create --name app --role client --out key', 'for a program that asks the model of the bridge'],
    ['brim bridge key create --name ci --role operator --jobs-per-day 1000 --out key', 'for a program, with a quota'],
  ],
  options: {
    name: Id.describe('name of the person or program that uses the key'),
    role: z
      .enum(keyRoles)
      .default('viewer')
      .describe(
        'what the key allows. client: ask the model of the bridge, nothing else; viewer: read; operator: also submit jobs and send commands to devices; admin: also create tokens and keys, and admit devices',
      ),
    requestsPerMinute: limit.optional().meta({
      description: 'max requests per minute, each answer of a request counted; they may all come at once',
      fallback: '6000, or what the bridge sets with --limit keyRequestsPerMinute',
    }),
    jobsPerDay: limit.optional().meta({ description: 'max new jobs per day (UTC)', fallback: 'no limit' }),
    out: z.string().min(1).optional().meta({
      description: 'new file for the key, readable by this user only; the key is not printed',
      fallback: 'standard output',
    }),
    days: z.int().min(0).max(3_660).default(365).describe('validity in days; 0: the key does not expire'),
    ...administrationOptions,
  },
  async run({ json, name, role, requestsPerMinute = null, jobsPerDay = null, out, days, ...options }, io) {
    const terms = { name, role, requestsPerMinute, jobsPerDay }
    const expiresS = days === 0 ? null : days * secondsPerDay
    const { id, key, expiresAt } = await secretInto(
      out,
      () =>
        administer(options, io, async (admin) => {
          return (await admin.call(adminOperations.createKey, { body: { ...terms, expiresS } })).value
        }),
      (created) => created.key,
    )
    if (json) return io.out(JSON.stringify({ id, ...terms, expiresAt, ...(out === undefined ? { key } : { out }) }))
    if (out === undefined) io.out(visibleLine(key))
    io.err(visibleLine(`key ${id} for ${name}, ${role}, ${expiresAt === null ? 'without expiry' : `until ${expiresAt}`}`))
  },
})
