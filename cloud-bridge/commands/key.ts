import type { CommandModule } from 'yargs'
import { BrimError } from '../../core/base/errors.ts'
import type { Io } from '../../core/base/io.ts'
import { idPattern } from '../../core/protocol/topics.ts'
import { type KeyRole, keyRoles } from '../identity/access.ts'
import { type AdministrationOptions, administer, administrationOptions } from './administration.ts'
import { columns } from './columns.ts'

interface KeyOptions extends AdministrationOptions {
  json?: boolean | undefined
}

/** `brim bridge key …` */
export function keyCommand(io: Io): CommandModule {
  return {
    command: 'key <verb>',
    describe: 'what people and programs show to be let in by HTTP: create, list, revoke',
    builder: (yargs) =>
      yargs
        .usage('Usage: brim bridge key <verb> [options]')
        .example('brim bridge key create --name monitoring > key', 'for a program that reads')
        .example('brim bridge key list', 'who is let in')
        .command(createCommand(io))
        .command(listCommand(io))
        .command(revokeCommand(io))
        .demandCommand(1, 'say what to do with keys: brim bridge key --help'),
    handler: () => {},
  }
}

interface CreateOptions extends KeyOptions {
  name: string
  role: KeyRole
  requestsPerMinute?: number | undefined
  jobsPerDay?: number | undefined
}

function createCommand(io: Io): CommandModule<object, CreateOptions> {
  return {
    command: 'create',
    describe: 'print a new key: a secret, kept nowhere; it is no device',
    builder: (yargs) =>
      yargs
        .usage('Usage: brim bridge key create --name <name> [options]')
        .example('brim bridge key create --name monitoring > key', 'sent as "Authorization: Bearer <key>"')
        .example('brim bridge key create --name sam --role admin | brim login --bridge-url …', 'an operator who logs in here')
        .example('(umask 077; brim bridge key create --name sam --role admin > key)', 'for brim login --key-file key elsewhere')
        .example('brim bridge key create --name ci --role operator --jobs-per-day 1000 > key', 'for a program, with a quota')
        .option('name', { type: 'string', demandOption: true, describe: 'who it is for' })
        .option('role', {
          choices: keyRoles,
          default: 'viewer' as const,
          describe: 'operator: jobs too, and what they say; admin: who may do what too',
        })
        .option('requests-per-minute', {
          type: 'number',
          requiresArg: true,
          describe: 'most requests; a minute of them may come at once',
        })
        .option('jobs-per-day', { type: 'number', requiresArg: true, describe: 'most new jobs of a day (UTC)' })
        .options(administrationOptions),
    handler: async ({ json, name, role, requestsPerMinute = null, jobsPerDay = null, ...options }) => {
      if (!idPattern.test(name))
        throw new BrimError('USAGE', `--name ${name}: small letters, digits, - and _`, { hint: 'as in --name monitoring' })
      for (const [flag, most] of Object.entries({ 'requests-per-minute': requestsPerMinute, 'jobs-per-day': jobsPerDay }))
        if (most !== null && (!Number.isSafeInteger(most) || most < 1))
          throw new BrimError('USAGE', `--${flag} ${most}: a whole number of 1 or more`)
      const wish = { name, role, requestsPerMinute, jobsPerDay }
      const { id, key } = await administer(options, io, (admin) => admin.createKey(wish))
      if (json) return io.out(JSON.stringify({ id, ...wish, key }))
      io.out(key)
      io.err(`key ${id} for ${name}, ${role}`)
    },
  }
}

function listCommand(io: Io): CommandModule<object, KeyOptions> {
  return {
    command: 'list',
    describe: 'the keys that were made, without their secrets',
    builder: (yargs) => yargs.example('brim bridge key list', 'who is let in').options(administrationOptions),
    handler: async ({ json, ...options }) => {
      const keys = await administer(options, io, (admin) => admin.keys())
      if (json) return io.out(JSON.stringify({ keys }))
      const rows = keys.map(({ id, name, role, requestsPerMinute, jobsPerDay, createdAt, revokedAt }) => [
        id,
        name,
        role,
        String(requestsPerMinute ?? '-'),
        String(jobsPerDay ?? '-'),
        createdAt,
        revokedAt ?? '-',
      ])
      io.out(columns([['KEY', 'NAME', 'ROLE', 'REQUESTS/MIN', 'JOBS/DAY', 'CREATED', 'REVOKED'], ...rows]))
    },
  }
}

function revokeCommand(io: Io): CommandModule<object, KeyOptions & { key: string }> {
  return {
    command: 'revoke <key>',
    describe: 'nobody is let in with it any more',
    builder: (yargs) =>
      yargs
        .example('brim bridge key revoke 3f9a11c0', 'as "brim bridge key list" names it')
        .positional('key', { type: 'string', demandOption: true, describe: 'its name in the list' })
        .options(administrationOptions),
    handler: async ({ json, key, ...options }) => {
      await administer(options, io, (admin) => admin.revokeKey(key))
      io.out(json ? JSON.stringify({ id: key, revoked: true }) : `key ${key} revoked`)
    },
  }
}
