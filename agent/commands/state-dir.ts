import { join } from 'node:path'
import { z } from 'zod'
import type { Io } from '../../core/kit/base/io.ts'
import { stateHome } from '../../core/kit/base/state-home.ts'

export const stateDirOption = z
  .string()
  .optional()
  .meta({ description: "folder of the agent's databases and key", fallback: '~/.local/state/brim/agents/<id>' })

/** Folder of a device's databases and key: `--state-dir`, else below this user's state folder. */
export const agentStateDir = (given: string | undefined, id: string, io: Io): string =>
  given ?? join(stateHome(io), 'brim/agents', id)
