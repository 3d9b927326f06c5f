import { join } from 'node:path'
import type { Io } from '../../core/base/io.ts'
import { stateHome } from '../../core/base/state-home.ts'

/** Folder of the bridge's databases: `--state-dir`, else below this user's state folder. */
export const bridgeStateDir = (given: string | undefined, io: Io): string => given ?? join(stateHome(io), 'brim/bridge')
