import { defineCommand } from '../../../../core/kit/cli/command.ts'
import type { TlsStatus } from '../../../../core/wire/protocol/http/admin.ts'
import { administer, administrationOptions } from '../../administration.ts'

/** Names of devices that are printed. */
const maxNames = 20

export const command = defineCommand({
  examples: [['brim bridge tls status', 'before the files of the certificate are replaced']],
  options: administrationOptions,
  async run({ json, ...options }, io) {
    const status = await administer(options, io, (admin) => admin.tls())
    io.out(json ? JSON.stringify(status) : pinsText(status))
  },
})

/** One line per key. */
export function pinsText({ present, next, approved }: TlsStatus): string {
  const lines = next.map(({ pin, announcedAt, missing }) => {
    const names = missing.slice(0, maxNames).join(', ') + (missing.length > maxNames ? ', …' : '')
    const ready = `${approved - missing.length} of ${approved} devices accept it`
    return `next     ${pin}  announced ${announcedAt}, ${ready}${missing.length === 0 ? '' : `; missing: ${names}`}`
  })
  return [`present  ${present ?? 'none, or unknown here'}`, ...lines].join('\n')
}
