import { resolve } from 'node:path'
import { z } from 'zod'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { megabytes } from '../../../core/kit/base/megabytes.ts'
import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { installedConfig, installedState } from '../../../core/kit/config-file/installed-file.ts'
import { localBridgeDir } from '../state-dir.ts'

export const command = defineCommand({
  examples: [
    ['brim bridge backup --out /backup/brim-$(date +%F)', 'on the machine of the bridge, which may run'],
    ['brim bridge backup --out brim-small --no-telemetry', 'without the stored samples of devices'],
  ],
  notes:
    'Holds the databases with the text of jobs, the private TLS key and the configuration file, readable by this user only; not the\n' +
    'bundles and releases, nor files that the configuration names. Keep the digest elsewhere: "restore --expect" compares it.',
  options: {
    out: z.string().min(1).describe('new folder'),
    telemetry: z.boolean().default(true).describe('include the stored telemetry of devices, which is most of the bytes'),
    config: z.string().min(1).optional().meta({
      description: 'configuration file of the bridge',
      fallback: '/etc/brim/bridge.yaml of the installed service, else none',
    }),
    stateDir: z
      .string()
      .optional()
      .meta({ description: 'folder of the bridge', fallback: '~/.local/state/brim/bridge, else that of the installed service' }),
  },
  async run({ out, telemetry, config, stateDir, json }, io) {
    const { backUp } = await import('../../backup/backup.ts')
    const folder = localBridgeDir(stateDir, io)
    const isInstalled = resolve(folder) === installedState('bridge')
    const { files, at, bridge, digest, missing } = await backUp({
      stateDir: folder,
      out,
      config: config ?? (isInstalled ? installedConfig('bridge') : undefined),
      telemetry,
      clock: systemClock,
      signal: io.signal,
    })
    for (const path of missing) io.err(visibleLine(`not included, because this user cannot read it: ${path}`))
    if (json) return io.out(JSON.stringify({ out, at, bridge: bridge.bridge, fleet: bridge.fleet, digest, files, missing }))
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0)
    io.out(visibleLine(`${out}: bridge ${bridge.bridge} as of ${at}, ${files.length} files, ${megabytes(bytes)}`))
    io.out(`digest: ${digest}`)
  },
})
