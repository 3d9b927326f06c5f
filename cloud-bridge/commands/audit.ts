import type { CommandModule } from 'yargs'
import type { Io } from '../../core/base/io.ts'
import { type AdministrationOptions, administer, administrationOptions } from './administration.ts'
import { columns } from './columns.ts'

/** `brim bridge audit` */
export function auditCommand(io: Io): CommandModule<object, AdministrationOptions & { limit: number; json?: boolean }> {
  return {
    command: 'audit',
    describe: 'who has changed what, from where, and who was refused: the latest first',
    builder: (yargs) =>
      yargs
        .example('brim bridge audit --limit 20', 'what has happened last')
        .option('limit', { type: 'number', default: 100, describe: 'most lines' })
        .options(administrationOptions),
    handler: async ({ limit, json, ...options }) => {
      const audit = await administer(options, io, (admin) => admin.audit(limit))
      if (json) return io.out(JSON.stringify({ audit }))
      const rows = audit.map(({ at, actor, from, action, subject, outcome, detail }) => [
        at,
        actor,
        from ?? '-',
        action,
        subject,
        outcome,
        JSON.stringify(detail),
      ])
      io.out(columns([['AT', 'WHO', 'FROM', 'WHAT', 'WHOM', 'OUTCOME', 'DETAIL'], ...rows]))
    },
  }
}
