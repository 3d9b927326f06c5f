import { join } from 'node:path'
import { z } from 'zod'
import { visibleLine } from '../../../core/base/visible-text.ts'
import { defineCommand } from '../../../core/cli/command.ts'
import { localBridgeDir } from '../state-dir.ts'

export const command = defineCommand({
  examples: [
    ['brim bridge restore /backup/brim-2026-03-01', 'after the bridge has been stopped'],
    ['brim bridge restore brim-backup --state-dir /var/lib/brim-bridge', 'on a new machine'],
  ],
  notes: 'What it replaces stays in a folder beside it. Keys, tokens and devices revoked after the backup are valid again.',
  options: {
    folder: z.string().min(1).describe('folder that "brim bridge backup" has written'),
    stateDir: z
      .string()
      .meta({ description: 'folder of the bridge', fallback: '~/.local/state/brim/bridge, else that of the installed service' })
      .optional(),
    replaceIdentity: z
      .boolean()
      .default(false)
      .describe('replace the databases of another bridge; the devices that enrolled there must enrol again'),
  },
  async run({ folder, stateDir, replaceIdentity, json }, io) {
    const [{ tlsFiles }, { restore }] = await Promise.all([import('../../backup/backup.ts'), import('../../backup/restore.ts')])
    const target = localBridgeDir(stateDir, io)
    const actor = `operator:${io.env.USER || 'unknown'}`
    const { backup, replaced } = await restore({ from: folder, stateDir: target, replaceIdentity, actor })
    const { at, bridge, files } = backup
    const hasKey = files.some(({ name }) => name === tlsFiles.key)
    const tls = hasKey ? { cert: join(target, tlsFiles.cert), key: join(target, tlsFiles.key) } : null
    if (json) return io.out(JSON.stringify({ at, bridge: bridge.bridge, fleet: bridge.fleet, replaced: replaced ?? null, tls }))
    const lines = [
      `bridge ${bridge.bridge} of fleet ${bridge.fleet} is as it was at ${at}`,
      'revoke again what has been revoked since then: keys, tokens, devices',
      ...(replaced === undefined ? [] : [`replaced databases: ${replaced}`]),
      ...(tls ? [`TLS: --tls-cert ${tls.cert} --tls-key ${tls.key}; before: ${bridge.tlsCert}, ${bridge.tlsKey}`] : []),
    ]
    for (const line of lines) io.out(visibleLine(line))
  },
})
