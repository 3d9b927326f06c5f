import { createRequire } from 'node:module'
import type { ErrorCode } from '../kit/base/errors.ts'
import type { Check } from './doctor-checks.ts'
import { reinstallHint } from './reinstall-hint.ts'

/** The native packages that agent and bridge load, and how each proves that it works. @returns its version */
const natives: Readonly<Record<string, () => Promise<string>>> = {
  async koffi() {
    const { default: koffi } = await import('koffi')
    return koffi.version
  },
  async 'better-sqlite3'() {
    const { default: Database } = await import('better-sqlite3')
    const database = new Database(':memory:')
    try {
      return `SQLite ${database.prepare('SELECT sqlite_version()').pluck().get()}`
    } finally {
      database.close()
    }
  },
  async bufferutil() {
    const { unmask } = createRequire(import.meta.url)('bufferutil') as { readonly unmask: () => void }
    // It replaces itself where its native part does not load.
    return String(unmask).includes('[native code]') ? 'native' : 'JavaScript: WebSockets cost more CPU time'
  },
}

/** Loads each native package separately: one that is broken does not hide the others. */
export const checkNatives = (): Promise<Check[]> =>
  Promise.all(Object.entries(natives).map(([name, load]) => checkNative(name, load)))

export async function checkNative(name: string, load: () => Promise<string>): Promise<Check> {
  try {
    const detail = await load()
    return { name, status: 'ok', detail, values: { version: detail } }
  } catch (error) {
    const why = error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)
    const code: ErrorCode = 'PREREQUISITE_MISSING'
    return { name, status: 'fail', detail: `does not load: ${why}`, hint: reinstallHint(), code, values: {} }
  }
}
