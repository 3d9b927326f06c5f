import { createReadStream, createWriteStream, existsSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { orThrow } from '../../../core/kit/base/errors.ts'
import type { RecordTarget } from './record-file.ts'

/** The records of several runs, in one file. */
export interface SweepRecords {
  /** Of each run. */
  readonly targets: readonly RecordTarget[]
  /** The file gets the records that there are, in the order of the runs. @throws BrimError TARGET_UNWRITABLE */
  join(): Promise<void>
}

/**
 * Each run writes a file of its own, until they are joined: runs take turns, or run at the same time.
 * @param file CSV where its name ends so, else JSON lines
 * @param swept what each run has in swept fields; one run has no file of its own
 */
export function sweepRecords(file: string, swept: readonly Readonly<Record<string, unknown>>[]): SweepRecords {
  const isCsv = file.toLowerCase().endsWith('.csv')
  if (swept.length === 1) return { targets: [{ file, isCsv, hasHead: true, common: {} }], join: async () => {} }
  const targets = swept.map((values, at) => ({
    file: `${file}.part-${at}`,
    isCsv,
    hasHead: at === 0,
    common: { run: at, ...values },
  }))
  return {
    targets,
    join: () =>
      orThrow(
        async () => {
          await writeFile(file, '')
          // A run that has not begun has no part.
          for (const { file: part } of targets.filter((target) => existsSync(target.file))) {
            await pipeline(createReadStream(part), createWriteStream(file, { flags: 'a' }))
            await rm(part)
          }
        },
        'TARGET_UNWRITABLE',
        `the records cannot be written to ${file}`,
        'are the folder and the disk writable?',
      ),
  }
}
