import { join } from 'node:path'
import type { Io } from '../../core/base/io.ts'
import { stateHome } from '../../core/base/state-home.ts'

/** The folder of the bridge's databases: `--state-dir`, else this user's own. */
export const bridgeStateDir = (said: string | undefined, io: Io): string => said ?? join(stateHome(io), 'brim/bridge')
