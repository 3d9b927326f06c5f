import { nowIso } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import type { StorageWatch } from '../../core/kit/store/storage-watch.ts'
import { inputOf, JobAck, JobAddress, ToJobDevice } from '../../core/wire/protocol/jobs.ts'
import { readMessage, type Unreadable } from '../../core/wire/protocol/read-message.ts'
import type { AttemptOutbox } from './attempt-outbox.ts'
import type { JobRunner } from './job-runner.ts'
import type { JobLedger, LedgerEntry } from './ledger.ts'

type Run = Extract<ToJobDevice, { type: 'run' }>

export interface JobInboxOptions {
  readonly ledger: JobLedger
  readonly outbox: AttemptOutbox
  /** One for each lane. */
  readonly runners: readonly JobRunner[]
  readonly storage: StorageWatch
  readonly logger: Logger
}

/** Takes the bridges' job messages and acknowledgements. */
export class JobInbox {
  readonly #options: JobInboxOptions

  constructor(options: JobInboxOptions) {
    this.#options = options
  }

  /** On return the job is on disk, or the bridge is sent the reason why it is not. */
  onJob(link: string, payload: Uint8Array): void {
    this.#options.outbox.onBridgeMessage(link)
    const read = readMessage(ToJobDevice, payload)
    if (read.kind === 'unreadable') this.#refuse(link, read)
    else if (read.message.type === 'cancel') this.#cancel(read.message)
    else this.#add(link, read.message)
  }

  onAck(link: string, payload: Uint8Array): void {
    const { outbox, logger } = this.#options
    const read = readMessage(JobAck, payload)
    if (read.kind === 'unreadable') {
      logger.warn({ err: new BrimError(read.code, read.reason) }, 'unreadable job acknowledgement ignored')
      return
    }
    outbox.onBridgeMessage(link)
    tryOrLog(logger, 'job acknowledgement not stored', () => outbox.acknowledge(read.message))
  }

  #add(link: string, message: Run): void {
    const { ledger, outbox, runners, storage } = this.#options
    const run = { ...message, input: inputOf(message) }
    let before: LedgerEntry | undefined
    let added: ReturnType<JobLedger['add']>
    try {
      before = ledger.find(message.bridge, message.job)
      added = ledger.add(link, run)
    } catch (err) {
      this.#decline(link, message, before, storage.onFailure(err))
      return
    }
    const entry = ledger.find(message.bridge, message.job)
    if (!entry) throw new Error('a stored job is not in the ledger')
    if (added === 'done') {
      if (entry.lastEvent) outbox.publish(link, entry.lastEvent)
      return
    }
    // The bridge has given up the running attempt.
    if (added === 'new' && before?.state === 'running') for (const runner of runners) runner.cancel(entry)
    if (added === 'known') outbox.resend(entry)
    else outbox.open(entry)
    for (const runner of runners) runner.wake()
  }

  /** The job cannot be stored. One that the device has already keeps its outcome. */
  #decline(link: string, { bridge, job, attempt }: Run, before: LedgerEntry | undefined, error: BrimError): void {
    const { outbox } = this.#options
    const last = before?.lastEvent
    if (last?.type === 'succeeded') outbox.publish(link, { ...last, attempt: Math.max(attempt, last.attempt) })
    if (last?.type === 'succeeded' || (before && before.attempt >= attempt)) return
    const { code, message } = error
    // Another device may run it, or this one once it has space.
    const event = { v: 1, bridge, job, attempt, n: 1, at: nowIso(), type: 'failed', failure: 'unavailable' } as const
    outbox.publish(link, { ...event, error: { code, message } })
  }

  #cancel({ bridge, job, attempt }: ToJobDevice): void {
    const { ledger, outbox, runners, storage } = this.#options
    const entry = ledger.find(bridge, job)
    if (entry?.attempt !== attempt || entry.state === 'done') return
    if (runners.some((runner) => runner.cancel(entry))) return
    try {
      outbox.finish(outbox.open(entry), { type: 'canceled' })
    } catch (err) {
      // The bridge has the event. If the job runs after all, the bridge cancels it again.
      storage.onFailure(err)
    }
  }

  /** Reports the reason if the job's address is readable, so that the bridge need not wait for its deadlines. */
  #refuse(link: string, { code, reason, json }: Unreadable): void {
    const { ledger, outbox, logger } = this.#options
    const address = JobAddress.safeParse(json).data
    const message = `the device cannot read the job: ${reason}`
    logger.warn({ err: new BrimError(code, message), job: address?.job }, 'unreadable job message ignored')
    // A newer bridge may send other messages about an attempt that the device has: the attempt continues.
    if (!address || (ledger.find(address.bridge, address.job)?.attempt ?? 0) >= address.attempt) return
    const error = { code, message }
    outbox.publish(link, { v: 1, ...address, n: 1, at: nowIso(), type: 'failed', failure: 'refused', error })
  }
}
