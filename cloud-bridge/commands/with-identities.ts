import type { Io } from '../../core/base/io.ts'
import { type IdentityStore, openIdentityStore } from '../identity/store.ts'
import { bridgeStateDir } from './state-dir.ts'

/** Whose tokens and devices: those of the bridge on this machine, whether it runs or not. */
export const stateDirOption = { type: 'string', describe: "folder of the bridge's database" } as const

export function withIdentities<T>(stateDir: string | undefined, io: Io, use: (store: IdentityStore) => T): T {
  const store = openIdentityStore(bridgeStateDir(stateDir, io))
  try {
    return use(store)
  } finally {
    store.close()
  }
}

/** Who stands in the audit log: whoever may write the bridge's database is an operator. */
export const operatorOf = (io: Io): string => `operator:${io.env.USER || 'unknown'}`

/** A table in plain text, its columns as wide as their widest cell. */
export function columns(rows: readonly (readonly string[])[]): string {
  const widths = rows.reduce<number[]>((all, row) => row.map((cell, at) => Math.max(all[at] ?? 0, cell.length)), [])
  return rows
    .map((row) =>
      row
        .map((cell, at) => cell.padEnd(widths[at]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}
