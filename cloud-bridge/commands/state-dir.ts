import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Io } from '../../core/kit/base/io.ts'
import { stateHome } from '../../core/kit/base/state-home.ts'
import { installedState } from '../../core/kit/config-file/installed-file.ts'

/** Folder of the bridge's databases: `--state-dir`, else below this user's state folder. */
export const bridgeStateDir = (given: string | undefined, io: Io): string => given ?? join(stateHome(io), 'brim/bridge')

/** Folder of the bridge on this machine that a command is about: `--state-dir`, else this user's bridge, else the installed service. */
export function localBridgeDir(given: string | undefined, io: Io): string {
  const own = bridgeStateDir(given, io)
  return given !== undefined || existsSync(own) ? own : (installedState('bridge') ?? own)
}
