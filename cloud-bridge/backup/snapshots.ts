import Database from 'better-sqlite3'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'

const retryMs = 20
const timeoutMs = 30_000

/**
 * A read transaction in each of the databases, all of the same moment: no process writes to any of them while they begin. It lasts
 * a few milliseconds, for which a running bridge waits.
 * @param paths of databases in WAL mode
 * @throws BrimError STORE_FAILED
 */
export async function openSnapshots(paths: readonly string[], clock: Clock, signal: AbortSignal): Promise<Database.Database[]> {
  const untilMs = clock.nowMs() + timeoutMs
  for (;;) {
    try {
      return beginAll(paths)
    } catch (cause) {
      const isBusy = cause instanceof Database.SqliteError && cause.code.startsWith('SQLITE_BUSY')
      if (!isBusy || clock.nowMs() >= untilMs)
        throw new BrimError('STORE_FAILED', 'the databases of the bridge cannot be read', {
          cause,
          hint: isBusy ? 'another program keeps one of them locked: end it' : 'run this as the user of the bridge',
        })
    }
    await clock.sleep(retryMs, signal)
  }
}

function beginAll(paths: readonly string[]): Database.Database[] {
  const writers: Database.Database[] = []
  const readers: Database.Database[] = []
  try {
    for (const path of paths) {
      const writer = new Database(path, { fileMustExist: true, timeout: 0 })
      writers.push(writer)
      writer.exec('BEGIN IMMEDIATE')
    }
    for (const path of paths) {
      const reader = new Database(path, { readonly: true, timeout: 0 })
      readers.push(reader)
      reader.exec('BEGIN')
      // The transaction begins with the first read.
      reader.prepare('SELECT count(*) FROM sqlite_schema').get()
    }
    return readers
  } catch (error) {
    for (const reader of readers) reader.close()
    throw error
  } finally {
    for (const writer of writers) writer.close()
  }
}
