import { existsSync, statSync } from 'node:fs'
import { userInfo } from 'node:os'
import { dirname, resolve } from 'node:path'
import Database from 'better-sqlite3'
import { BrimError } from '../base/errors.ts'

const root = 0

/**
 * Runs a function with the rights of the user to whom a state folder belongs, if this process runs as root. That user could have
 * put links there, through which root would create, read or give away files of others. One such function at a time.
 * @param folder if it does not exist, the folder above it counts
 * @throws BrimError STORE_FAILED where root may not become that user, and what `use` throws
 */
export async function asOwner<T>(folder: string, use: () => T | Promise<T>): Promise<T> {
  const owner = foreignOwner(existing(resolve(folder)))
  if (process.getuid?.() === root && process.geteuid?.() !== root) throw new Error('root acts as another user already')
  if (owner === undefined) return use()
  // Its native part is loaded at the first use, and that user may be unable to read the program.
  new Database(':memory:').close()
  const become = (uid: number, gid: number, setGroups: () => void) => {
    setGroups()
    process.setegid?.(gid)
    process.seteuid?.(uid)
  }
  const [gid, groups] = [process.getegid?.() ?? root, process.getgroups?.() ?? []]
  const back = () => {
    process.seteuid?.(root)
    become(root, gid, () => process.setgroups?.(groups))
  }
  try {
    const user = accountOf(owner.uid)
    if (user) become(owner.uid, user.gid, () => initGroups(user.username, user.gid))
    // A user without an account: a container's, or that of another machine.
    else become(owner.uid, owner.gid || owner.uid, () => process.setgroups?.([]))
  } catch (cause) {
    back()
    throw new BrimError('STORE_FAILED', `root cannot act as user ${owner.uid}, to whom ${folder} belongs`, {
      cause,
      hint: `run it as that user: sudo -u '#${owner.uid}' …`,
    })
  }
  try {
    return await use()
  } finally {
    back()
  }
}

/**
 * Root keeps out of a state folder of another user; `asOwner` is the way in.
 * @throws BrimError STORE_FAILED
 */
export function requireOwnFolder(folder: string): void {
  const owner = foreignOwner(folder)
  if (owner === undefined) return
  throw new BrimError('STORE_FAILED', `the folder ${folder} belongs to user ${owner.uid}, and this process runs as root`, {
    hint: `run it as that user: sudo -u '#${owner.uid}' …, or choose another --state-dir`,
  })
}

/** Of a folder that does not belong to root, where this process has root's rights. */
function foreignOwner(folder: string): { readonly uid: number; readonly gid: number } | undefined {
  if (process.geteuid?.() !== root) return undefined
  const found = statSync(folder, { throwIfNoEntry: false })
  return found === undefined || found.uid === root ? undefined : found
}

function initGroups(user: string, gid: number): void {
  // @types/node does not have it.
  const { initgroups } = process as { initgroups?: (user: string, gid: number) => void }
  initgroups?.(user, gid)
}

const existing = (path: string): string => (existsSync(path) ? path : existing(dirname(path)))

/** @returns undefined for a user without an account. As root. */
function accountOf(uid: number): { readonly username: string; readonly gid: number } | undefined {
  process.seteuid?.(uid)
  try {
    // It describes the effective user.
    return userInfo()
  } catch {
    return undefined
  } finally {
    process.seteuid?.(root)
  }
}
