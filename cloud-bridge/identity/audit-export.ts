import { appendFileSync } from 'node:fs'
import type { Clock } from '../../core/kit/base/clock.ts'
import { orThrow } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import { storedJson } from '../../core/kit/store/stored-json.ts'
import type { AuditRecord } from './audit-log.ts'
import type { IdentityStore } from './store.ts'

const everyMs = 1_000
/** Lines of each table appended at once. */
const maxLines = 1_000

export interface AuditExportOptions {
  /** Opened anew for each append, so it may be renamed at any time. */
  readonly file: string
  readonly store: Pick<IdentityStore, 'notExported' | 'exported'>
  readonly bridge: string
  readonly clock: Clock
  readonly logger: Logger
}

/**
 * Appends the audit log to a file, one JSON document a line: what other processes have written too, and what was missed
 * while the bridge was down or the disk full. After a crash, lines may be appended twice.
 * @throws BrimError TARGET_UNWRITABLE
 */
export function openAuditExport({ file, store, bridge, clock, logger }: AuditExportOptions): { close(): Promise<void> } {
  const lineOf = ({ detail, ...line }: AuditRecord) =>
    `${JSON.stringify({ bridge, ...line, detail: storedJson(detail) ?? detail })}\n`
  const append = (text: string) => appendFileSync(file, text, { mode: 0o600, flush: true })

  function exportDue(): void {
    const { lines, cursor } = store.notExported(maxLines)
    if (lines.length === 0) return
    append(lines.map(lineOf).join(''))
    store.exported(cursor)
  }

  orThrow(
    () => append(''),
    'TARGET_UNWRITABLE',
    `the audit log ${file} cannot be written`,
    'does its folder exist, and belong to this user?',
  )
  let failing = false
  /** A full disk is logged once, not every second. */
  function run(): void {
    try {
      exportDue()
      failing = false
    } catch (err) {
      if (!failing) logger.error({ err, file }, 'audit log not appended to its file, retrying every second')
      failing = true
    }
  }
  const stop = repeatEvery(clock, everyMs, run)
  return {
    async close() {
      await stop()
      run()
    },
  }
}
