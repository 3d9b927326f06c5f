import { createWriteStream, openSync } from 'node:fs'
import { Recording } from '../../policy/recording.ts'
import type { Closers } from '../base/closers.ts'
import { orThrow } from '../base/errors.ts'
import type { Logger } from '../base/logger.ts'

/**
 * Begins a recording of the process's machines, which goes on until everything that uses it is closed.
 * @param path of a file that is replaced; undefined: nothing is recorded
 * @throws BrimError TARGET_UNWRITABLE
 */
export function recordToFile(path: string | undefined, closers: Closers, logger: Logger): Recording | undefined {
  if (path === undefined) return undefined
  const file = createWriteStream(path, { fd: openForWriting(path) })
  file.once('error', (err) => logger.warn({ err, path }, 'recording not written any more, going on without'))
  closers.push(
    () =>
      new Promise<void>((resolve) => {
        if (file.errored) resolve()
        else file.end(resolve)
      }),
  )
  return new Recording((line) => {
    if (!file.errored) file.write(`${line}\n`)
  })
}

function openForWriting(path: string): number {
  return orThrow(
    () => openSync(path, 'w', 0o600),
    'TARGET_UNWRITABLE',
    `the recording cannot be written to ${path}`,
    'name another file with --record; its folder must exist',
  )
}
