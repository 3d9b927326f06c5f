import { z } from 'zod'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { bridgeOperations } from '../../../core/wire/protocol/http/bridge.ts'
import { processFields } from '../../../core/wire/protocol/process-fields.ts'
import { BridgeClient, userOf } from '../bridge-client.ts'
import { localBridgeDir } from '../state-dir.ts'

const url = z.url({ protocol: /^postgres(ql)?$/, error: 'must be a URL like postgres://brim@db.example.org/brim' }).optional()

export const command = defineCommand({
  examples: [
    ['brim bridge migrate --to postgres://brim@db.example.org/brim', 'ends the bridge if it runs; then start it with --database'],
    ['brim bridge migrate --from postgres://brim@db.example.org/brim --state-dir NEW', 'ends all of its processes; and back'],
  ],
  notes: 'Every row is compared on both sides. Telemetry and answers under way are not copied: docs/several-bridges.md.',
  options: {
    to: url.meta({ description: 'URL of the PostgreSQL database that the bridges will share', fallback: 'none' }),
    from: url.meta({ description: 'URL of the PostgreSQL database whose fleet a bridge will serve alone', fallback: 'none' }),
    stateDir: z
      .string()
      .optional()
      .meta({ description: 'folder of the bridge', fallback: '~/.local/state/brim/bridge, else that of the installed service' }),
    fleet: processFields.fleet.describe('with --from: name of the fleet'),
  },
  async run({ to, from, stateDir, fleet, json }, io) {
    const target = to ?? from
    if (target === undefined || (to !== undefined && from !== undefined))
      throw new BrimError('USAGE', 'one of --to and --from names the database', { hint: '--to postgres://…' })
    const { moveFromPostgres, moveToPostgres } = await import('../../replica/migrate.ts')
    const folder = localBridgeDir(stateDir, io)
    const options = { stateDir: folder, url: target, signal: io.signal, progress: io.err }
    const done =
      to === undefined
        ? await moveFromPostgres({ ...options, fleet })
        : await moveToPostgres({ ...options, end: () => endBridge(folder, io) })
    if (json) return io.out(JSON.stringify({ ...done, stateDir: folder }))
    const { bridge, fleet: moved, rows, digest } = done
    const copied = `${rows} rows copied, the same on both sides (${digest.slice(0, 12)}…)`
    io.out(visibleLine(`bridge ${bridge} of fleet ${moved}: ${copied}`))
    io.out(
      to === undefined
        ? `start it without --database, with --state-dir ${folder}`
        : 'start it with --database and the same --id and --fleet, here and on other machines',
    )
  },
})

/** Asks the bridge of a folder to end. @returns false: none runs there. @throws BrimError as `BridgeClient` */
async function endBridge(folder: string, io: Io): Promise<boolean> {
  const { localKey, readAddress } = await import('../../identity/local-access.ts')
  const address = readAddress(folder)
  if (!address) return false
  await new BridgeClient({ ...address, key: localKey(folder, userOf(io)) }, io.signal).call(bridgeOperations.end, {})
  return true
}
