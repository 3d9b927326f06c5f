import { createWriteStream } from 'node:fs'
import { Recording } from '../policy/recording.ts'

export interface RecordFile {
  readonly recording: Recording
  /** Resolves when everything is written. */
  close(): Promise<void>
}

/**
 * Begins a recording of the process's machines.
 * @param path of a file that is replaced
 * @param failed the file cannot be written: nothing more is recorded
 */
export function recordToFile(path: string, failed: (error: Error) => void): RecordFile {
  const file = createWriteStream(path, { mode: 0o600 })
  file.once('error', failed)
  return {
    recording: new Recording((line) => {
      if (!file.errored) file.write(`${line}\n`)
    }),
    close: () => new Promise((resolve) => file.end(() => resolve())),
  }
}
