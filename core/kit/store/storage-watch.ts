import { BrimError, type ErrorCode } from '../base/errors.ts'
import type { Logger } from '../base/logger.ts'

export interface StorageWatchOptions {
  /** @throws if the disk is full */
  readonly requireSpace: () => void
  /** Writes. @throws if the disk stores nothing */
  readonly requireWritable: () => void
  /** The disk has begun or ceased to fail. */
  readonly onChange: () => void
  readonly code: Extract<ErrorCode, 'STORE_FAILED' | 'STORAGE_FULL'>
  readonly what: string
  readonly logger: Logger
}

/** Whether the disk stores jobs. While it does not, no more are taken. */
export class StorageWatch {
  readonly #options: StorageWatchOptions
  #failure: string | undefined

  constructor(options: StorageWatchOptions) {
    this.#options = options
  }

  get isFailing(): boolean {
    return this.#failure !== undefined
  }

  /** Why the disk stores nothing; undefined: it does. */
  get failure(): string | undefined {
    return this.#failure
  }

  /** Logs the first of several failures in a row. @returns the error as operators see it */
  onFailure(cause: unknown): BrimError {
    const { code, what, onChange, logger } = this.#options
    const reason = cause instanceof Error ? cause.message : String(cause)
    const err = new BrimError(code, `${what}: ${reason}`, {
      cause,
      hint: 'free space on the disk of the state folder; it goes on by itself',
    })
    if (this.#failure !== undefined) return err
    this.#failure = reason
    logger.error({ err }, 'jobs not stored, no more are taken')
    onChange()
    return err
  }

  /** Call it at the start, and at a fixed interval. */
  check(): void {
    const { requireSpace, requireWritable, onChange, logger } = this.#options
    try {
      if (this.#failure === undefined) {
        requireSpace()
        return
      }
      requireWritable()
    } catch (cause) {
      this.onFailure(cause)
      return
    }
    this.#failure = undefined
    logger.warn('jobs can be stored again')
    onChange()
  }
}
