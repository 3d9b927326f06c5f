import type { CommandModule } from 'yargs'
import { BrimError } from '../../core/base/errors.ts'
import type { Io } from '../../core/base/io.ts'
import { idPattern } from '../../core/protocol/topics.ts'
import { type KeyRole, keyRoles } from '../identity/access.ts'
import { columns, operatorOf, stateDirOption, withIdentities } from './with-identities.ts'

interface KeyOptions {
  stateDir?: string | undefined
  json?: boolean | undefined
}

/** `brim bridge key …` */
export function keyCommand(io: Io): CommandModule {
  return {
    command: 'key <verb>',
    describe: 'what people and programs show to be let in by HTTP: create, list, revoke',
    builder: (yargs) =>
      yargs
        .command(createCommand(io))
        .command(listCommand(io))
        .command(revokeCommand(io))
        .demandCommand(1, 'say what to do with keys: brim bridge key --help'),
    handler: () => {},
  }
}

function createCommand(io: Io): CommandModule<object, KeyOptions & { name: string; role: KeyRole }> {
  return {
    command: 'create',
    describe: 'print a new key: a secret, kept nowhere; it is no device',
    builder: (yargs) =>
      yargs
        .usage('Usage: brim bridge key create --name <name> [options]')
        .example('brim bridge key create --name monitoring > key', 'sent as "Authorization: Bearer <key>"')
        .example('brim bridge key create --name ci --role operator > key', 'for brim job --key-file key')
        .option('name', { type: 'string', demandOption: true, describe: 'who it is for' })
        .option('role', {
          choices: keyRoles,
          default: 'viewer' as const,
          describe: 'operator: jobs too, and what they say; admin: who may do what too',
        })
        .option('state-dir', stateDirOption),
    handler: ({ stateDir, json, name, role }) => {
      if (!idPattern.test(name))
        throw new BrimError('USAGE', `--name ${name}: small letters, digits, - and _`, { hint: 'as in --name monitoring' })
      const { id, key } = withIdentities(stateDir, io, (store) => store.createKey(operatorOf(io), name, role))
      if (json) return io.out(JSON.stringify({ id, name, role, key }))
      io.out(key)
      io.err(`key ${id} for ${name}, ${role}`)
    },
  }
}

function listCommand(io: Io): CommandModule<object, KeyOptions> {
  return {
    command: 'list',
    describe: 'the keys that were made, without their secrets',
    builder: (yargs) => yargs.example('brim bridge key list', 'who may read').option('state-dir', stateDirOption),
    handler: ({ stateDir, json }) => {
      const keys = withIdentities(stateDir, io, (store) => store.keys())
      if (json) return io.out(JSON.stringify({ keys }))
      const rows = keys.map(({ id, name, role, createdAt, revokedAt }) => [id, name, role, createdAt, revokedAt ?? '-'])
      io.out(columns([['KEY', 'NAME', 'ROLE', 'CREATED', 'REVOKED'], ...rows]))
    },
  }
}

function revokeCommand(io: Io): CommandModule<object, KeyOptions & { key: string }> {
  return {
    command: 'revoke <key>',
    describe: 'nobody reads with it any more',
    builder: (yargs) =>
      yargs
        .example('brim bridge key revoke 3f9a11c0', 'as "brim bridge key list" names it')
        .positional('key', { type: 'string', demandOption: true, describe: 'its name in the list' })
        .option('state-dir', stateDirOption),
    handler: ({ stateDir, json, key }) => {
      if (!withIdentities(stateDir, io, (store) => store.revokeKey(operatorOf(io), key)))
        throw new BrimError('IDENTITY_UNKNOWN', 'there is no such key', { hint: '"brim bridge key list" names them' })
      io.out(json ? JSON.stringify({ id: key, revoked: true }) : `key ${key} revoked`)
    },
  }
}
