import { existsSync } from 'node:fs'
import { join } from 'node:path'

/** Folder of the configuration of an installed service. */
export const installedConfigDir = '/etc/brim'

/** The state folder of an installed service; undefined: none is installed. @param name as in `agent` */
export function installedState(name: string): string | undefined {
  const path = join('/var/lib/brim', name)
  return existsSync(path) ? path : undefined
}

/** The configuration file of an installed service; undefined: none is installed. @param name as in `agent` */
export function installedConfig(name: string): string | undefined {
  const path = join(installedConfigDir, `${name}.yaml`)
  return existsSync(path) ? path : undefined
}
