import { join } from 'node:path'
import type { Io } from '../../core/base/io.ts'
import { stateHome } from '../../core/base/state-home.ts'

/** The folder of a device's database and key: `--state-dir`, else this user's own. */
export const agentStateDir = (said: string | undefined, id: string, io: Io): string =>
  said ?? join(stateHome(io), 'brim/agents', id)
