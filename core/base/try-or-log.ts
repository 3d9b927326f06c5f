import type { Logger } from './logger.ts'

/** Runs `work`, and logs its error instead of throwing it: for work that comes again, such as a write to a full disk. */
export function tryOrLog(logger: Logger, message: string, work: () => void, fields: object = {}): void {
  try {
    work()
  } catch (err) {
    logger.error({ ...fields, err }, message)
  }
}
