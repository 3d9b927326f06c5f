import { homedir } from 'node:os'
import { join } from 'node:path'
import type { Io } from './io.ts'

/** Where this user's settings lie (XDG Base Directory Specification). */
export const configHome = ({ env }: Io): string => env.XDG_CONFIG_HOME || join(env.HOME || homedir(), '.config')

/** Where the state of this user's programs lies (XDG Base Directory Specification). */
export const stateHome = ({ env }: Io): string => env.XDG_STATE_HOME || join(env.HOME || homedir(), '.local/state')
