import { homedir } from 'node:os'
import { join } from 'node:path'
import type { Io } from './io.ts'

/** Folder of this user's settings (XDG Base Directory Specification). */
export const configHome = ({ env }: Io): string => env.XDG_CONFIG_HOME || join(env.HOME || homedir(), '.config')

/** Folder of the state of this user's programs (XDG Base Directory Specification). */
export const stateHome = ({ env }: Io): string => env.XDG_STATE_HOME || join(env.HOME || homedir(), '.local/state')

/** Folder of this user's files that can be made or downloaded again (XDG Base Directory Specification). */
export const cacheHome = ({ env }: Io): string => env.XDG_CACHE_HOME || join(env.HOME || homedir(), '.cache')
