import { readFile } from 'node:fs/promises'
import type { CommandModule } from 'yargs'
import { BrimError } from '../../core/base/errors.ts'
import type { Io } from '../../core/base/io.ts'
import { idPattern } from '../../core/protocol/topics.ts'
import { lockFolder } from '../../core/store/lock-folder.ts'
import { enrol, resetIdentity } from '../identity/enrolment.ts'
import { agentStateDir } from './state-dir.ts'

interface EnrollOptions {
  id: string
  'token-file': string
  replace: boolean
  stateDir?: string | undefined
  json?: boolean | undefined
}

/** `brim agent enroll` */
export function enrollCommand(io: Io): CommandModule<object, EnrollOptions> {
  return {
    command: 'enroll',
    describe: 'make this device known to a bridge: its key is made here and stays here',
    builder: (yargs) =>
      yargs
        .usage('Usage: brim agent enroll --id <name> --token-file <file>|- [options]')
        .example('brim agent enroll --id jetson-01 --token-file token', 'with what "brim bridge token create" has printed')
        .example('ssh bridge brim bridge token create | brim agent enroll --id jetson-01 --token-file -', 'nothing on disk')
        .option('id', { type: 'string', demandOption: true, describe: 'name of this device in its fleet' })
        .option('token-file', {
          type: 'string',
          nargs: 1,
          demandOption: true,
          describe: 'file with the token; -: standard input',
        })
        .option('replace', { type: 'boolean', default: false, describe: 'with a new key, though this device has one' })
        .option('state-dir', { type: 'string', describe: "folder of the agent's database and key" }),
    handler: async ({ id, 'token-file': tokenFile, replace, stateDir, json }) => {
      requireId(id)
      const token = (tokenFile === '-' ? await io.stdin() : await readToken(tokenFile)).trim()
      const wish = { stateDir: agentStateDir(stateDir, id, io), device: id, token, replace }
      const { url, mqttUrl, bridge, fleet, group, status } = await enrol(wish, io.signal)
      if (json) return io.out(JSON.stringify({ device: id, bridge, fleet, group, status, url, mqttUrl }))
      io.out(`device ${id} enrolled at bridge ${bridge}, group ${group}: ${status}`)
      if (status === 'pending') io.err(`  next, at the bridge: brim device approve ${id}`)
    },
  }
}

interface ResetOptions {
  id: string
  stateDir?: string | undefined
  json?: boolean | undefined
}

/** `brim agent reset-identity` */
export function resetIdentityCommand(io: Io): CommandModule<object, ResetOptions> {
  return {
    command: 'reset-identity',
    describe: 'forget who this device is: a new key, enrolled nowhere (for a copied image)',
    builder: (yargs) =>
      yargs
        .usage('Usage: brim agent reset-identity --id <name> [options]')
        .example('brim agent reset-identity --id jetson-01', 'then enrol it again')
        .option('id', { type: 'string', demandOption: true, describe: 'name that this device has had' })
        .option('state-dir', { type: 'string', describe: "folder of the agent's database and key" }),
    handler: async ({ id, stateDir, json }) => {
      requireId(id)
      const folder = agentStateDir(stateDir, id, io)
      // An agent that runs would go on under its old key until it ends.
      const unlock = lockFolder(folder)
      try {
        const { publicKey } = resetIdentity(folder)
        io.out(json ? JSON.stringify({ device: id, publicKey }) : `device ${id} has a new key, enrolled nowhere`)
      } finally {
        unlock()
      }
    },
  }
}

/** @throws BrimError USAGE */
function requireId(id: string): void {
  if (idPattern.test(id)) return
  throw new BrimError('USAGE', `--id ${id}: small letters, digits, - and _`, { hint: 'as in --id jetson-01' })
}

/** @throws BrimError USAGE */
async function readToken(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    throw new BrimError('USAGE', `the token file ${path} cannot be read`, { cause, hint: '--token-file - reads standard input' })
  }
}
