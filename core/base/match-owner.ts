import { chownSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/** Gives what root has made to the owner of its folder: a service has a user of its own, who must be able to open it. */
export function matchOwner(path: string): void {
  if (process.getuid?.() !== 0) return
  const { uid, gid } = statSync(dirname(path))
  chownSync(path, uid, gid)
}
