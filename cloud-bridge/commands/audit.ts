import type { CommandModule } from 'yargs'
import type { Io } from '../../core/base/io.ts'
import { columns, stateDirOption, withIdentities } from './with-identities.ts'

/** `brim bridge audit` */
export function auditCommand(io: Io): CommandModule<object, { stateDir?: string; limit: number; json?: boolean }> {
  return {
    command: 'audit',
    describe: 'who enrolled, approved, revoked or was refused, the latest first',
    builder: (yargs) =>
      yargs
        .example('brim bridge audit --limit 20', 'what has happened last')
        .option('limit', { type: 'number', default: 100, describe: 'most lines' })
        .option('state-dir', stateDirOption),
    handler: ({ stateDir, limit, json }) => {
      const records = withIdentities(stateDir, io, (store) => store.audit(limit))
      if (json) return io.out(JSON.stringify({ audit: records.map((line) => ({ ...line, detail: JSON.parse(line.detail) })) }))
      const rows = records.map(({ at, actor, action, subject, detail }) => [at, actor, action, subject, detail])
      io.out(columns([['AT', 'WHO', 'WHAT', 'WHOM', 'DETAIL'], ...rows]))
    },
  }
}
