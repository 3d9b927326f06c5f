import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'

export interface StorageWatchOptions {
  /** @throws if the disk stores nothing */
  readonly probe: () => void
  /** The disk has begun or ceased to fail. */
  readonly onChange: () => void
  readonly logger: Logger
}

/** Whether the disk stores jobs. While it does not, the device announces no kinds of jobs, so that it is sent none. */
export class StorageWatch {
  readonly #options: StorageWatchOptions
  #isFailing = false

  constructor(options: StorageWatchOptions) {
    this.#options = options
  }

  get isFailing(): boolean {
    return this.#isFailing
  }

  /** Logs the first of several failures in a row. @returns the error as operators see it */
  onFailure(cause: unknown): BrimError {
    const reason = cause instanceof Error ? cause.message : String(cause)
    const err = new BrimError('STORE_FAILED', `the device cannot store jobs: ${reason}`, {
      cause,
      hint: 'free disk space on the device; it takes jobs again by itself',
    })
    if (this.#isFailing) return err
    this.#isFailing = true
    this.#options.logger.error({ err }, 'jobs not stored, no more are taken')
    this.#options.onChange()
    return err
  }

  /** Call it at a fixed interval. */
  check(): void {
    if (!this.#isFailing) return
    try {
      this.#options.probe()
    } catch {
      return
    }
    this.#isFailing = false
    this.#options.logger.warn('jobs can be stored again')
    this.#options.onChange()
  }
}
