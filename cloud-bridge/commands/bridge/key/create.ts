import { z } from 'zod'
import { visibleLine } from '../../../../core/base/visible-text.ts'
import { defineCommand } from '../../../../core/cli/command.ts'
import { keyRoles } from '../../../../core/protocol/http/admin.ts'
import { Id } from '../../../../core/protocol/id.ts'
import { administer, administrationOptions } from '../../administration.ts'

const secondsPerDay = 86_400
const limit = z.int().min(1)

export const command = defineCommand({
  examples: [
    ['brim bridge key create --name monitoring > key', 'sent as "Authorization: Bearer <key>"'],
    ['brim bridge key create --name sam --role admin | brim login --bridge-url …', 'an operator who logs in here'],
    ['(umask 077; brim bridge key create --name sam --role admin > key)', 'for "brim login --key-file key" elsewhere'],
    ['(umask 077; brim bridge key create --name app --role client > key)', 'for a program that asks the model of the bridge'],
    ['brim bridge key create --name ci --role operator --jobs-per-day 1000 > key', 'for a program, with a quota'],
  ],
  options: {
    name: Id.describe('name of the person or program that uses the key'),
    role: z
      .enum(keyRoles)
      .default('viewer')
      .describe(
        'what the key allows. client: ask the model of the bridge, nothing else; viewer: read; operator: also submit jobs and send commands to devices; admin: also create tokens and keys, and admit devices',
      ),
    requestsPerMinute: limit
      .meta({
        description: 'max requests per minute, each answer of a request counted; they may all come at once',
        fallback: '6000, or what the bridge sets with --limit keyRequestsPerMinute',
      })
      .optional(),
    jobsPerDay: limit.meta({ description: 'max new jobs per day (UTC)', fallback: 'no limit' }).optional(),
    days: z.int().min(0).max(3_660).default(365).describe('validity in days; 0: the key does not expire'),
    ...administrationOptions,
  },
  async run({ json, name, role, requestsPerMinute = null, jobsPerDay = null, days, ...options }, io) {
    const terms = { name, role, requestsPerMinute, jobsPerDay }
    const expiresS = days === 0 ? null : days * secondsPerDay
    const { id, key, expiresAt } = await administer(options, io, (admin) => admin.createKey({ ...terms, expiresS }))
    if (json) return io.out(JSON.stringify({ id, ...terms, expiresAt, key }))
    io.out(visibleLine(key))
    io.err(visibleLine(`key ${id} for ${name}, ${role}, ${expiresAt === null ? 'without expiry' : `until ${expiresAt}`}`))
  },
})
