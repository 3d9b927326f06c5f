import type { Logger } from './logger.ts'

/** Runs `work`, and logs its error instead of throwing it: for repeated work that may succeed later, such as a disk write. */
export function tryOrLog(logger: Logger, message: string, work: () => void, fields: object = {}): void {
  try {
    work()
  } catch (err) {
    logger.error({ ...fields, err }, message)
  }
}
