import { BrimError } from '../base/errors.ts'

/** Far above what helps; the runtime would start any number until memory is gone. */
const mostThreads = 256

/** @throws BrimError USAGE */
export function checkThreads(threads: number): void {
  if (Number.isInteger(threads) && threads >= 1 && threads <= mostThreads) return
  throw new BrimError('USAGE', `--threads ${threads} is no number of threads`, {
    hint: `give a whole number from 1 to ${mostThreads}, at best the number of cores`,
  })
}
