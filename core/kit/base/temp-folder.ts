import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

interface TempFolder extends AsyncDisposable {
  readonly path: string
}

/** A new folder, which is removed when it is disposed of. @param what part of its name */
export async function tempFolder(what: string): Promise<TempFolder> {
  const path = await mkdtemp(join(tmpdir(), `brim-${what}-`))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}
