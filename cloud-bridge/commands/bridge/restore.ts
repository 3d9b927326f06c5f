import { join } from 'node:path'
import { z } from 'zod'
import { off } from '../../../core/kit/base/setting-kinds.ts'
import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { userOf } from '../bridge-client.ts'
import { localBridgeDir } from '../state-dir.ts'

export const command = defineCommand({
  examples: [
    ['brim bridge restore /backup/brim-2026-03-01', 'after the bridge has been stopped'],
    ['sudo brim bridge restore brim-backup --expect 9f2c…', 'on a new machine, after install.sh --bridge --no-start'],
  ],
  notes:
    'What it replaces stays in a folder beside it. Keys, tokens and devices revoked after the backup are valid again. The\n' +
    'configuration file stays in the backup, bundles and releases are not in it: docs/operating.md, "A new machine for the bridge".',
  options: {
    folder: z.string().min(1).describe('folder that "brim bridge backup" has written'),
    stateDir: z
      .string()
      .optional()
      .meta({ description: 'folder of the bridge', fallback: '~/.local/state/brim/bridge, else that of the installed service' }),
    expect: z
      .string()
      .regex(/^[0-9a-f]{64}$/i, 'must be the 64 hexadecimal digits that "brim bridge backup" printed')
      .optional()
      .meta({ description: 'digest of the backup; one that was altered since then is refused', fallback: 'any backup' }),
    replaceIdentity: off.describe(
      'replace a bridge of another identity that is in use; the devices that enrolled there must enrol again',
    ),
  },
  async run({ folder, stateDir, expect, replaceIdentity, json }, io) {
    const [{ tlsFiles }, { configFile }, { restore }] = await Promise.all([
      import('../../backup/backup.ts'),
      import('../../backup/backup-file.ts'),
      import('../../backup/restore.ts'),
    ])
    const target = localBridgeDir(stateDir, io)
    const actor = `operator:${userOf(io)}`
    const { backup, digest, replaced } = await restore({ from: folder, stateDir: target, expect, replaceIdentity, actor })
    const { at, bridge, files } = backup
    const hasKey = files.some(({ name }) => name === tlsFiles.key)
    const tls = hasKey ? { cert: join(target, tlsFiles.cert), key: join(target, tlsFiles.key) } : null
    const config = files.some(({ name }) => name === configFile) ? join(folder, configFile) : null
    const names = { bridge: bridge.bridge, fleet: bridge.fleet }
    if (json) {
      const places = { stateDir: target, replaced: replaced ?? null, tls, config }
      return io.out(JSON.stringify({ at, ...names, digest, ...places }))
    }
    const lines = [
      `bridge ${bridge.bridge} of fleet ${bridge.fleet} is as it was at ${at}, in ${target}`,
      ...(expect === undefined ? [`digest: ${digest}, not compared (--expect)`] : []),
      'revoke again what has been revoked since then: keys, tokens, devices',
      ...(replaced === undefined ? [] : [`replaced databases: ${replaced}`]),
      ...(tls ? [`TLS: --tls-cert ${tls.cert} --tls-key ${tls.key}; before: ${bridge.tlsCert}, ${bridge.tlsKey}`] : []),
      ...(config === null ? [] : [`configuration of the bridge: ${config}; it is not installed`]),
    ]
    for (const line of lines) io.out(visibleLine(line))
  },
})
