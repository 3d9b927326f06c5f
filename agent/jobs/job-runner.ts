import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import type { StorageWatch } from '../../core/kit/store/storage-watch.ts'
import type { Lane } from '../../core/policy/jobs/assign-jobs.ts'
import { maxEventBytes } from '../../core/wire/protocol/jobs.ts'
import type { AttemptOutbox } from './attempt-outbox.ts'
import { AttemptReporter } from './attempt-reporter.ts'
import { type JobContext, type JobHandlers, RestartRequired } from './job-handler.ts'
import type { JobLedger, LedgerEntry } from './ledger.ts'
import { interrupted, type Outcome, outcomeOf } from './outcome.ts'

export interface JobRunnerOptions {
  readonly ledger: JobLedger
  readonly outbox: AttemptOutbox
  readonly storage: StorageWatch
  readonly clock: Clock
  readonly logger: Logger
}

/** Time between two tries to write to a disk that fails. */
const storeRetryMs = 2_000

/** Runs the jobs of one lane of the ledger one at a time, the oldest first. */
export class JobRunner {
  readonly #lane: Lane
  readonly #options: JobRunnerOptions
  readonly #closing = new AbortController()
  #isDraining = false
  #current: { readonly entry: LedgerEntry; readonly cancel: AbortController } | undefined
  #wake = () => {}
  #running: Promise<void> | undefined

  constructor(lane: Lane, options: JobRunnerOptions) {
    this.#lane = lane
    this.#options = options
  }

  /** @param handlers as they are when a job begins */
  start(handlers: () => JobHandlers): void {
    this.#running ??= this.#runAll(handlers)
  }

  /** The ledger has a new job. */
  wake(): void {
    this.#wake()
  }

  /** Cancels the attempt of this job if it is running. @returns whether it is */
  cancel({ bridge, job }: Pick<LedgerEntry, 'bridge' | 'job'>): boolean {
    const { entry, cancel } = this.#current ?? {}
    if (entry?.bridge !== bridge || entry.job !== job) return false
    cancel?.abort()
    return true
  }

  /** Begins no further job: waiting jobs run after the next start. @returns resolves when none runs */
  async drain(): Promise<void> {
    this.#isDraining = true
    this.#wake()
    await this.#running
  }

  /** Interrupts the attempt that runs. Waiting jobs run after the next start. */
  async close(): Promise<void> {
    this.#closing.abort(new BrimError('CANCELED', 'the agent is shutting down'))
    this.#wake()
    await this.#running
  }

  async #runAll(handlers: () => JobHandlers): Promise<void> {
    while (!this.#closing.signal.aborted && !this.#isDraining) {
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve
      })
      const entry = await this.#untilStored(() => this.#options.ledger.begin(this.#lane))
      if (entry) await this.#run(entry, handlers())
      else await woken
    }
  }

  async #run(entry: LedgerEntry, handlers: JobHandlers): Promise<void> {
    const { outbox, clock, logger } = this.#options
    const cancel = new AbortController()
    this.#current = { entry, cancel }
    const startedMs = clock.nowMs()
    const attempt = outbox.open(entry)
    const reporter = new AttemptReporter(outbox, attempt, clock)
    const outcome = await this.#outcomeOf(entry, handlers, reporter, startedMs - attempt.openedMs, cancel.signal)
    await reporter.stop()
    this.#current = undefined
    await this.#untilStored(() => outbox.finish(attempt, outcome))
    const { job, kind } = entry
    const tookMs = clock.nowMs() - startedMs
    logger.info({ job, kind, attempt: entry.attempt, outcome: outcome.type, tookMs: Math.round(tookMs) }, 'job ended')
  }

  async #outcomeOf(
    entry: LedgerEntry,
    handlers: JobHandlers,
    reporter: AttemptReporter,
    waitedMs: number,
    canceled: AbortSignal,
  ): Promise<Outcome> {
    const { kind, input, job } = entry
    const closing = this.#closing.signal
    try {
      const handle = handlers[kind]
      if (!handle) {
        const supported = Object.keys(handlers).join(', ')
        throw new BrimError('REQUEST_INVALID', `this device does not support ${kind}; it supports ${supported}`)
      }
      const context = this.#contextOf(entry, reporter, waitedMs)
      const result = await handle(input, reporter.emitText, AbortSignal.any([canceled, closing]), context)
      const bytes = Buffer.byteLength(JSON.stringify(result))
      if (bytes <= maxEventBytes) return { type: 'succeeded', result }
      throw new BrimError('REQUEST_INVALID', `the result has ${bytes} bytes; the limit is ${maxEventBytes}`)
    } catch (err) {
      if (err instanceof RestartRequired) return interrupted
      if (!(err instanceof BrimError)) this.#options.logger.error({ err, job, kind }, 'job failed')
      if (closing.aborted) return interrupted
      return canceled.aborted ? { type: 'canceled' } : outcomeOf(err)
    }
  }

  #contextOf(entry: LedgerEntry, { progress, sentence }: AttemptReporter, waitedMs: number): JobContext {
    const { ledger, storage } = this.#options
    const finished = ledger.sentencesOf(entry)
    return {
      id: `${entry.bridge} ${entry.job}`,
      link: entry.link,
      waitedMs,
      progress,
      finishedSentences: finished,
      sentence(written) {
        try {
          if (!finished.includes(written)) ledger.addSentence(entry, written)
        } catch (err) {
          // The bridge is sent it all the same.
          storage.onFailure(err)
        }
        sentence(written)
      },
    }
  }

  /** Retries `write` until it succeeds or the agent closes: a full disk must not end the agent or lose a result. */
  async #untilStored<T>(write: () => T): Promise<T | undefined> {
    const { clock, storage } = this.#options
    for (;;) {
      try {
        return write()
      } catch (err) {
        storage.onFailure(err)
        if (this.#closing.signal.aborted) return undefined
      }
      await clock.sleep(storeRetryMs, this.#closing.signal).catch(() => {})
    }
  }
}
