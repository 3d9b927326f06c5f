import { existsSync } from 'node:fs'
import { checkMachine } from '../../core/commands/doctor.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { installedConfig, installedState } from '../../core/kit/config-file/installed-file.ts'
import { supportBundleCommand } from '../../core/kit/support-bundle/command.ts'
import { checkBridges } from './bridge-check.ts'
import { checkDevice } from './device-check.ts'
import { openFleetConfig, options } from './run.ts'
import { agentStateDir } from './state-dir.ts'

const defaultPort = 7071

export const command = supportBundleCommand({
  name: 'agent',
  options,
  defaultFile: () => installedConfig('agent'),
  databases: async () => (await import('../databases.ts')).agentDatabases,
  stateDirOf(owner, io) {
    const [given, id] = [owner.get('state-dir')?.value, owner.get('id')?.value]
    const installed = given === undefined && !existsSync(agentStateDir(undefined, String(id), io)) && installedState('agent')
    if (installed) return installed
    if (given === undefined && id === undefined)
      throw new BrimError('USAGE', 'no agent is named', { hint: 'give --id or --state-dir' })
    return agentStateDir(given?.toString(), String(id), io)
  },
  fleetOf: (configuration, io) => openFleetConfig(configuration, io).layer,
  urlOf: (owner) => `http://127.0.0.1:${String(owner.get('api-port')?.value ?? defaultPort)}`,
  paths: ['/health', '/ready'],
  checks: (io) => checkMachine(io, [async () => [await checkDevice()], checkBridges]),
})
