import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface TempDir extends Disposable {
  readonly path: string
}

/** A new folder that is removed when the scope ends. */
export function tempDir(): TempDir {
  const path = mkdtempSync(join(tmpdir(), 'brim-test-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}
