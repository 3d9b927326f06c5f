import { type Clock, nowIso } from '../../core/base/clock.ts'
import { BrimError, type ErrorCode } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import type { AttemptFailure } from '../../core/policy/jobs/retry.ts'
import { JobAck, JobAddress, type JobEvent, maxEventBytes, ToJobDevice } from '../../core/protocol/jobs.ts'
import { readMessage, type Unreadable } from '../../core/protocol/read-message.ts'
import type { FinalEvent, JobLedger, LedgerEntry } from './ledger.ts'

/** Does one kind of job. @param say a piece of the answer @returns the whole result */
export type JobHandler = (
  input: unknown,
  say: (text: string) => void,
  signal: AbortSignal,
  job: JobContext,
) => Promise<Record<string, unknown>>

export interface JobContext {
  /** The broker that the job came from. */
  readonly link: string
  /** How far work without a text has come. */
  progress(doneBytes: number, totalBytes: number): void
}

/** What the control link to one broker does for jobs. */
export interface JobPort {
  /** Told in the device's state. */
  readonly kinds: readonly string[]
  /** On disk when it returns. @throws where it is not: then it must not be acknowledged */
  onJob(payload: Uint8Array): void
  onAck(payload: Uint8Array): void
  /** The connection, or that there is none. */
  onLink(publish: ((event: string) => void) | undefined): void
}

export interface JobRunner {
  /** @param link names the broker: answers go where the job came from */
  port(link: string): JobPort
  /** Jobs at hand; null where the disk does not say. */
  readonly counts: { readonly waiting: number | null; readonly running: number | null }
  start(): void
  /** Stops the work under way; what waits is done after the next start. */
  close(): Promise<void>
}

export interface RunnerOptions {
  readonly ledger: JobLedger
  readonly handlers: Readonly<Record<string, JobHandler>>
  readonly clock: Clock
  readonly logger: Logger
}

/** What the bridge has not acknowledged by then is said again. */
const repeatMs = 2_000
/** While it says nothing at all, ever more seldom: every so many times at least. */
const seldom = 16
/** Work that is silent says so often that it goes on. */
const beatMs = 15_000
/** Pieces of an answer are gathered for so long: each costs the bridge a commit. */
const pieceMs = 100
/** How far it has come is said so often at most. */
const progressMs = 2_000
/** After what an earlier start of this agent may have said of the attempt. */
const afterAll = 2 ** 31

/** The events of an attempt that is at hand, until they are acknowledged. */
interface Course {
  readonly entry: LedgerEntry
  events: JobEvent[]
  n: number
}

/** The connection to a broker. */
interface Link {
  readonly publish: (event: string) => void
  /** What is not acknowledged is said again every so many `repeatMs`, and the next time after so many. */
  every: number
  left: number
}

/** The device's jobs, one at a time, oldest first. */
export function createJobRunner({ ledger, handlers: works, clock, logger }: RunnerOptions): JobRunner {
  const links = new Map<string, Link>()
  const courses = new Map<string, Course>()
  const stopping = new AbortController()
  let working: { readonly entry: LedgerEntry; readonly stop: AbortController } | undefined
  let wake = () => {}
  let running: Promise<unknown> | undefined

  const keyOf = ({ bridge, job }: { bridge: string; job: string }) => `${bridge} ${job}`
  const publish = (link: string, event: JobEvent) => links.get(link)?.publish(JSON.stringify(event))

  function courseOf(entry: LedgerEntry): Course {
    const known = courses.get(keyOf(entry))
    if (known?.entry.attempt === entry.attempt) return known
    const course: Course = { entry, events: [], n: 0 }
    courses.set(keyOf(entry), course)
    say(course, { type: 'accepted' })
    return course
  }

  type Piece =
    | { type: 'accepted' | 'running' }
    | { type: 'text'; text: string; from: number }
    | { type: 'progress'; doneBytes: number; totalBytes: number }
  function say(course: Course, piece: Piece): void {
    course.n += 1
    const event: JobEvent = { ...addressOf(course.entry), n: course.n, at: nowIso(), ...piece }
    course.events.push(event)
    publish(course.entry.link, event)
  }

  /** Everything that is not acknowledged, in order. */
  function repeat(link: string): void {
    const said = [...courses.values()].flatMap(({ entry, events }) => (entry.link === link ? events : []))
    const ended = ledger.open().flatMap(({ link: to, lastEvent }) => (to === link && lastEvent ? [lastEvent] : []))
    for (const event of [...said, ...ended]) publish(link, event)
  }

  /** A broker may be there and nobody behind it, for hours: that is not worth a link that is paid for by the byte. */
  function repeatIfDue(name: string, link: Link): void {
    link.left -= 1
    if (link.left > 0) return
    repeat(name)
    link.every = Math.min(2 * link.every, seldom)
    link.left = link.every
  }

  /** The bridge has said something there. */
  function isHeard(name: string): void {
    const link = links.get(name)
    if (link) Object.assign(link, { every: 1, left: 1 })
  }

  function end(entry: LedgerEntry, how: Outcome, n: number): void {
    const event: FinalEvent = { ...addressOf(entry), n, at: nowIso(), ...how }
    if (!ledger.finish(event)) return
    courses.delete(keyOf(entry))
    publish(entry.link, event)
  }

  function taken(link: string, payload: Uint8Array): void {
    const read = readMessage(ToJobDevice, payload)
    if (read.kind === 'unreadable') refuse(link, read)
    else if (read.message.type === 'cancel') recall(read.message)
    else take(link, read.message)
  }

  /** Where it can be read whose job it is, the bridge learns why it will not be done, and need not wait for its deadlines. */
  function refuse(link: string, { code, reason, json }: Unreadable): void {
    const address = JobAddress.safeParse(json).data
    const message = `the device cannot read the job: ${reason}`
    logger.warn({ err: new BrimError(code, message), job: address?.job }, 'unreadable job message')
    // An attempt at hand goes on, whatever else a newer bridge may have to say of it.
    if (!address || (ledger.find(address.bridge, address.job)?.attempt ?? 0) >= address.attempt) return
    publish(link, { v: 1, ...address, n: 1, at: nowIso(), type: 'failed', failure: 'refused', error: { code, message } })
  }

  function take(link: string, message: Extract<ToJobDevice, { type: 'run' }>): void {
    const before = ledger.find(message.bridge, message.job)
    const how = ledger.add(link, message)
    const entry = ledger.find(message.bridge, message.job)
    if (!entry) throw new Error('a job that was stored is not there')
    if (how === 'done') {
      if (entry.lastEvent) publish(link, entry.lastEvent)
      return
    }
    // The bridge has given the attempt at work up: nobody waits for it.
    if (how === 'new' && before?.state === 'running' && working && keyOf(working.entry) === keyOf(entry)) working.stop.abort()
    if (how === 'known') for (const event of courses.get(keyOf(entry))?.events ?? []) publish(link, event)
    else courseOf(entry)
    wake()
  }

  function recall({ bridge, job, attempt }: ToJobDevice): void {
    const entry = ledger.find(bridge, job)
    if (!entry || entry.attempt !== attempt || entry.state === 'done') return
    if (working && keyOf(working.entry) === keyOf(entry)) working.stop.abort()
    else end(entry, { type: 'canceled' }, courseOf(entry).n + 1)
  }

  async function work(entry: LedgerEntry): Promise<void> {
    const stop = new AbortController()
    working = { entry, stop }
    const course = courseOf(entry)
    const startedMs = clock.nowMs()
    let text = ''
    let said = 0
    let saidMs = startedMs
    const speak = (piece: string) => {
      text += piece
      if (text.length === said || clock.nowMs() - saidMs < pieceMs) return
      say(course, { type: 'text', text: text.slice(said), from: said })
      said = text.length
      saidMs = clock.nowMs()
    }
    let progressSaidMs = Number.NEGATIVE_INFINITY
    const progress = (doneBytes: number, totalBytes: number) => {
      if (clock.nowMs() - progressSaidMs < progressMs) return
      say(course, { type: 'progress', doneBytes, totalBytes })
      progressSaidMs = clock.nowMs()
    }
    // Long work says nothing of its own for minutes; that it goes on, it says.
    const beat = setInterval(() => say(course, { type: 'running' }), beatMs)
    let how: Outcome
    try {
      say(course, { type: 'running' })
      const does = works[entry.kind]
      if (!does)
        throw new BrimError(
          'REQUEST_INVALID',
          `${entry.kind} is not supported by this device; it does ${Object.keys(works).join(', ')}`,
        )
      const ended = AbortSignal.any([stop.signal, stopping.signal])
      how = { type: 'succeeded', result: await does(entry.input, speak, ended, { link: entry.link, progress }) }
      const bytes = Buffer.byteLength(JSON.stringify(how.result))
      if (bytes > maxEventBytes)
        throw new BrimError('REQUEST_INVALID', `a result of ${bytes} bytes; the limit is ${maxEventBytes}`)
    } catch (err) {
      if (!(err instanceof BrimError)) logger.error({ err, job: entry.job, kind: entry.kind }, 'job failed')
      how = stopping.signal.aborted ? interrupted : stop.signal.aborted ? { type: 'canceled' } : failedBy(err)
    }
    clearInterval(beat)
    working = undefined
    await stored(() => end(entry, how, course.n + 1))
    const { job, kind, attempt } = entry
    logger.info({ job, kind, attempt, outcome: how.type, tookMs: clock.nowMs() - startedMs }, 'job ended')
  }

  /** A disk that is full is no reason to end, nor to forget what was done: until it is stored, it is tried again. */
  async function stored<T>(write: () => T): Promise<T | undefined> {
    for (;;) {
      try {
        return write()
      } catch (err) {
        logger.error({ err }, 'jobs cannot be stored')
        if (stopping.signal.aborted) return undefined
      }
      await clock.sleep(repeatMs, stopping.signal).catch(() => {})
    }
  }

  function guarded(what: () => void): void {
    try {
      what()
    } catch (err) {
      logger.error({ err }, 'jobs cannot be read or stored')
    }
  }

  async function workOn(): Promise<void> {
    while (!stopping.signal.aborted) {
      const more = new Promise<void>((resolve) => {
        wake = resolve
      })
      const entry = await stored(() => ledger.begin())
      if (entry) await work(entry)
      else await more
    }
  }

  async function repeatOn(): Promise<void> {
    while (!stopping.signal.aborted) {
      await clock.sleep(repeatMs, stopping.signal).catch(() => {})
      if (!stopping.signal.aborted) for (const [name, link] of links) guarded(() => repeatIfDue(name, link))
    }
  }

  return {
    port: (link) => ({
      get kinds() {
        return Object.keys(works)
      },
      onJob(payload) {
        isHeard(link)
        taken(link, payload)
      },
      onAck(payload) {
        const read = readMessage(JobAck, payload)
        if (read.kind === 'unreadable')
          return logger.warn(
            { err: new BrimError(read.code, `unreadable acknowledgement: ${read.reason}`) },
            'job not acknowledged',
          )
        const ack = read.message
        isHeard(link)
        const course = courses.get(keyOf(ack))
        if (course?.entry.attempt === ack.attempt) course.events = course.events.filter(({ n }) => n > ack.n)
        guarded(() => ledger.acknowledged(ack.bridge, ack.job, ack.attempt, ack.n))
      },
      onLink(publishThere) {
        if (!publishThere) return void links.delete(link)
        links.set(link, { publish: publishThere, every: 1, left: 1 })
        guarded(() => repeat(link))
      },
    }),
    get counts() {
      try {
        return ledger.counts
      } catch {
        return { waiting: null, running: null }
      }
    },
    start() {
      for (const entry of ledger.open()) {
        // It was at work when the agent ended: what came of it nobody knows, so it came to nothing.
        if (entry.state === 'running') guarded(() => end(entry, interrupted, afterAll))
        else if (entry.state === 'waiting') courseOf(entry)
      }
      running = Promise.all([workOn(), repeatOn()])
    },
    async close() {
      stopping.abort(new BrimError('CANCELED', 'the agent is shutting down'))
      wake()
      await running
    },
  }
}

type Outcome =
  | { readonly type: 'succeeded'; readonly result: Record<string, unknown> }
  | { readonly type: 'canceled' }
  | { readonly type: 'failed'; readonly failure: AttemptFailure; readonly error: { code: string; message: string } }

const interrupted: Outcome = {
  type: 'failed',
  failure: 'interrupted',
  error: { code: 'CANCELED', message: 'the agent ended while it was at work' },
}

/** What asking again cannot change, and what time may. */
const kindOfFailure: Partial<Record<ErrorCode, AttemptFailure>> = {
  REQUEST_INVALID: 'refused',
  CONTEXT_OVERFLOW: 'refused',
  CHAT_TEMPLATE_INVALID: 'refused',
  MODEL_UNKNOWN: 'refused',
  BUNDLE_INVALID: 'refused',
  BUNDLE_CORRUPT: 'refused',
  DISK_FULL: 'refused',
  BUNDLE_UNAVAILABLE: 'unavailable',
  BRIDGE_UNREACHABLE: 'unavailable',
  LINK_LOST: 'unavailable',
  SESSION_REFUSED: 'unavailable',
  SESSION_UNKNOWN: 'unavailable',
}

function failedBy(error: unknown): Outcome {
  if (!(error instanceof BrimError))
    return { type: 'failed', failure: 'failed', error: { code: 'INTERNAL', message: 'the device failed; its log says why' } }
  const { code, message } = error
  return { type: 'failed', failure: kindOfFailure[code] ?? 'failed', error: { code, message: message.slice(0, 2_000) } }
}

const addressOf = ({ bridge, job, attempt }: LedgerEntry) => ({ v: 1 as const, bridge, job, attempt })
