import { checkMachine } from '../../../core/commands/doctor.ts'
import { installedConfig } from '../../../core/kit/config-file/installed-file.ts'
import { supportBundleCommand } from '../../../core/kit/support-bundle/command.ts'
import { localBridgeDir } from '../state-dir.ts'
import { options } from './run.ts'

const defaultPort = 7070

export const command = supportBundleCommand({
  name: 'bridge',
  options,
  defaultFile: () => installedConfig('bridge'),
  databases: async () => (await import('../../databases.ts')).bridgeDatabases,
  stateDirOf: (owner, io) => localBridgeDir(owner.get('state-dir')?.value.toString(), io),
  urlOf: (owner) => {
    const host = String(owner.get('host')?.value ?? '127.0.0.1')
    const reached = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host
    return `${owner.has('tls-cert') ? 'https' : 'http'}://${reached}:${String(owner.get('http-port')?.value ?? defaultPort)}`
  },
  paths: ['/health', '/metrics'],
  checks: (io) => checkMachine(io, []),
})
