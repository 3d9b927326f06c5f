import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { BrimError } from '../base/errors.ts'
import type { Migrations } from './migrate.ts'

/** A database of a state folder. */
export interface StoreFile {
  readonly file: string
  readonly migrations: Migrations
  /**
   * `records`: what was acknowledged, and the permissions; without it the process does not start.
   * `figures`: what can be measured again; a damaged one is set aside, and a new one is begun.
   */
  readonly holds: 'records' | 'figures'
}

/**
 * No records are missing where a database exists that is created after them.
 * @param stores in the order in which a first start creates them
 * @throws BrimError STORE_DAMAGED
 */
export function requireStores(folder: string, stores: readonly StoreFile[]): void {
  const isThere = ({ file }: StoreFile) => existsSync(join(folder, file))
  const missing = stores.find((store, i) => store.holds === 'records' && !isThere(store) && stores.slice(i).some(isThere))
  if (!missing) return
  const later = stores.slice(stores.indexOf(missing)).filter(isThere)
  const names = later.map(({ file }) => file).join(', ')
  throw new BrimError('STORE_DAMAGED', `the database ${join(folder, missing.file)} is missing, although ${names} exist`, {
    hint: `restore it from a backup (of a bridge: "brim bridge restore"); to begin anew without what it held, move ${names} away too`,
  })
}
