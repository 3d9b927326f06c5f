import type { Menu } from '../../../core/kit/cli/command.ts'

/** `brim bridge …` */
export const menu: Menu = {
  examples: [
    ['brim bridge run --bundle qwen', 'serve the middle of a model to agents on this machine'],
    ['brim bridge token create --approve --out token', 'an enrolment token for a device'],
    ['brim bridge key create --name sam --role admin | brim login --bridge-url …', 'an API key for an operator'],
  ],
  commands: {
    run: ['run a bridge until it is stopped', () => import('./run.ts')],
    config: ['check a configuration file, and show where each option was set', () => import('./config.ts')],
    token: ['enrolment tokens of devices: create, list, revoke', () => import('./token/menu.ts')],
    key: ['API keys of operators and programs: create, list, revoke', () => import('./key/menu.ts')],
    audit: ['show the audit log: changes and refused attempts, the newest first', () => import('./audit.ts')],
    tls: ['TLS keys: announce the next one before the certificate is replaced', () => import('./tls/menu.ts')],
    'nats-keys <folder>': ['create the keys by which a bridge administers a NATS cluster', () => import('./nats-keys.ts')],
    'support-bundle': ['write what helps to find a fault, without secrets and prompts', () => import('./support-bundle.ts')],
    'drain <node>': ['send the devices of one of several processes to the others', () => import('./drain.ts')],
    backup: ['copy the databases and the TLS key of a bridge into a new folder, while it runs', () => import('./backup.ts')],
    migrate: ['move the databases of a bridge to PostgreSQL, or back', () => import('./migrate.ts')],
    'restore <folder>': ['replace the databases of a bridge that does not run by a backup', () => import('./restore.ts')],
  },
}
