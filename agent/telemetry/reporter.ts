import { type Clock, clockIsSet, nowIso } from '../../core/kit/base/clock.ts'
import { orAborted } from '../../core/kit/base/or-aborted.ts'
import { type DeadBands, type Measurements, type Report, shouldReport } from '../../core/policy/telemetry/dead-bands.ts'
import { nextReportingStep } from '../../core/policy/telemetry/reporting.ts'
import { settled } from '../../core/policy/telemetry/resolution.ts'
import type { SpooledLeaf } from '../../core/policy/telemetry/spool.ts'
import { withoutUnknown } from '../../core/wire/protocol/telemetry-delta.ts'
import type { LinkFigures } from './measurements.ts'
import { SampleEncoder } from './sample-encoder.ts'
import type { Spool } from './spool.ts'

/** Interval at which measurements are compared with the last reports, and so the shortest between two reports. */
const checkMs = 1_000
/** Gap between two spooled messages: 64 MB take an hour or two, and a tenth of a slow uplink. */
const replayGapMs = 100
/** Wait after a spooled message that could not be sent or deleted. */
const retryMs = 1_000

/** A link to the bridges of one broker. */
export interface ReportLink {
  readonly connected: boolean
  /** The data plane; undefined while it is not connected. */
  readonly figures: LinkFigures | undefined
  /**
   * Names the bridges there, this connection to them, and how often they asked for a complete sample: when it changes, they
   * need one. Undefined: none listens, or one of them does not understand deltas.
   */
  readonly deltaReceivers: string | undefined
  /** Publishes a live report. */
  report(message: string): Promise<boolean>
}

export interface ReporterOptions {
  /** Each receives its own reports. */
  readonly links: readonly ReportLink[]
  /** Whether any bridge receives what the device publishes; if not, measurements are spooled. */
  readonly hasBridge: () => boolean
  /** Publishes a spooled message. @returns whether a broker has acknowledged it */
  readonly replay: (leaf: SpooledLeaf, message: string) => Promise<boolean>
  readonly spool: Spool
  /** Samples the device's condition. */
  readonly sample: (signal: AbortSignal) => Promise<void>
  readonly measure: (link: LinkFigures | undefined) => Measurements
  /** Longest interval between samples, and between reports; 0: none of either. */
  readonly everyMs: number
  /** Override the default dead bands. */
  readonly deadBands: DeadBands
  readonly birth: number
  readonly clock: Clock
}

/** Where measurements are reported: a link, or the spool. */
interface Target {
  readonly figures: () => LinkFigures | undefined
  /** @returns whether the target has accepted them */
  readonly send: (measured: Measurements) => boolean
  /** Whether it needs a report although no figure has moved. */
  readonly isDue: () => boolean
  last: Report | undefined
}

/** The device's reporting loop: samples its condition, reports measurements that have moved, and replays the spool. */
export class Reporter {
  readonly #options: ReporterOptions
  readonly #targets: readonly Target[]
  readonly #stopping = new AbortController()
  /** Samples and replays in progress. */
  readonly #pending = new Set<Promise<void>>()
  #wake = new AbortController()
  #sampleDueMs: number
  #checkDueMs: number
  #replayDueMs: number
  #running: Promise<void> | undefined

  constructor(options: ReporterOptions) {
    const { links, clock, everyMs } = options
    this.#options = options
    this.#targets = everyMs > 0 ? [...links.map((link) => this.#linkTarget(link)), this.#spoolTarget()] : []
    const nowMs = clock.nowMs()
    this.#sampleDueMs = everyMs > 0 ? nowMs : Number.POSITIVE_INFINITY
    this.#checkDueMs = nowMs + checkMs
    this.#replayDueMs = nowMs
  }

  start(): void {
    this.#running ??= this.#run()
  }

  async close(): Promise<void> {
    this.#stopping.abort()
    this.#wake.abort()
    await this.#running
    await Promise.all(this.#pending)
  }

  async #run(): Promise<void> {
    const { clock, spool, hasBridge, everyMs } = this.#options
    const { signal } = this.#stopping
    while (!signal.aborted) {
      const nowMs = clock.nowMs()
      // Later than its interval: the clock was set back.
      this.#sampleDueMs = cappedDueMs(this.#sampleDueMs, nowMs + everyMs)
      this.#checkDueMs = cappedDueMs(this.#checkDueMs, nowMs + checkMs)
      this.#replayDueMs = cappedDueMs(this.#replayDueMs, nowMs + retryMs)
      const state = {
        sampleDueMs: this.#sampleDueMs,
        checkDueMs: this.#checkDueMs,
        replayDueMs: this.#replayDueMs,
        queues: spool.queues,
        hasBridge: hasBridge(),
      }
      const step = nextReportingStep(state, nowMs)
      switch (step.kind) {
        case 'sample':
          this.#sampleDueMs = Number.POSITIVE_INFINITY
          this.#begin(this.#sample())
          break
        case 'check':
          this.#checkDueMs = nowMs + checkMs
          this.#report()
          break
        case 'replay':
          this.#replayDueMs = Number.POSITIVE_INFINITY
          this.#begin(this.#replay(step.leaf))
          break
        case 'wait':
          this.#wake = new AbortController()
          await clock.sleep(step.ms, this.#wake.signal).catch(() => {})
          break
        default:
          step satisfies never
      }
    }
  }

  /** Runs beside the loop, which is woken when the work is done. */
  #begin(work: Promise<void>): void {
    this.#pending.add(work)
    void work.then(() => {
      this.#pending.delete(work)
      this.#wake.abort()
    })
  }

  async #sample(): Promise<void> {
    const { sample, clock, everyMs } = this.#options
    await sample(this.#stopping.signal)
    this.#sampleDueMs = clock.nowMs() + everyMs
  }

  #report(): void {
    const { measure, clock, everyMs, deadBands } = this.#options
    for (const target of this.#targets) {
      const report = { atMs: clock.nowMs(), measured: measure(target.figures()) }
      if (!target.isDue() && !shouldReport(target.last, report, everyMs, deadBands)) continue
      // A target that does not accept the report gets the next one, whatever has moved.
      target.last = target.send(report.measured) ? report : undefined
    }
  }

  /** Deletes the message once a broker has it: after a crash in between it is sent twice. */
  async #replay(leaf: SpooledLeaf): Promise<void> {
    const { spool, clock } = this.#options
    const { signal } = this.#stopping
    const sentMs = clock.nowMs()
    const message = spool.next(leaf)
    // A broker that does not respond must not delay the agent's end.
    const isSent = message !== undefined && (await this.#isReplayed(leaf, message.text))
    // A full disk does not even delete. Until it does, nothing else is sent: the same message would be, for ever.
    while (isSent && !signal.aborted && !spool.delete(leaf, message.n)) await clock.sleep(retryMs, signal).catch(() => {})
    this.#replayDueMs = isSent ? sentMs + replayGapMs : clock.nowMs() + retryMs
  }

  /** @returns false if the reporter is closed first */
  #isReplayed(leaf: SpooledLeaf, message: string): Promise<boolean> {
    const replaying = this.#options.replay(leaf, message)
    return orAborted(replaying, this.#stopping.signal, async () => {}).catch(() => false)
  }

  #linkTarget(link: ReportLink): Target {
    const { birth, deadBands, clock } = this.#options
    const encoder = new SampleEncoder(birth, deadBands)
    return {
      figures: () => link.figures,
      send(measured) {
        if (!link.connected) return false
        const moment = { ms: clock.nowMs(), at: nowIso(), clockIsSet: clockIsSet() }
        void link.report(encoder.encode(measured, link.deltaReceivers, moment))
        return true
      },
      isDue: () => encoder.needsFull(link.deltaReceivers),
      last: undefined,
    }
  }

  #spoolTarget(): Target {
    const { hasBridge, spool, deadBands } = this.#options
    return {
      figures: () => undefined,
      send(measured) {
        if (hasBridge()) return false
        spool.put('telemetry', withoutUnknown(settled(measured, undefined, deadBands)))
        return true
      },
      isDue: () => false,
      last: undefined,
    }
  }
}

/** Infinity stays: turned off, or in progress. */
const cappedDueMs = (dueMs: number, maxMs: number) => (Number.isFinite(dueMs) ? Math.min(dueMs, maxMs) : dueMs)
