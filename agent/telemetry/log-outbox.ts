import { pino } from 'pino'
import type { Clock } from '../../core/kit/base/clock.ts'
import type { LogTap } from '../../core/kit/base/logger.ts'
import type { DeviceLog, LogLevel } from '../../core/wire/protocol/commands.ts'
import { toDeviceLog } from './log-line.ts'
import type { Spool } from './spool.ts'

/** pino's number of the lowest level that is sent without an operator's request: warnings. */
const defaultLevel = 40
/** Lines buffered before `start`. */
const maxBuffered = 100
/** Token buckets, in lines: the default, and while an operator has requested a level. */
const defaultRate = { burst: 50, perS: 2 }
const requestedRate = { burst: 200, perS: 100 }

export interface LogLinks {
  /** Whether any bridge receives what the device publishes. */
  readonly hasBridge: boolean
  publishToAll(leaf: 'log', line: string): void
}

/**
 * Sends the device's log to the bridges: warnings and errors, or more while an operator has requested a level. Lines beyond
 * its rate are dropped and counted. While no bridge receives them, lines are spooled.
 */
export class LogOutbox implements LogTap {
  readonly #clock: Clock
  readonly #birth: number
  #sink: { readonly links: LogLinks; readonly spool: Pick<Spool, 'put'> } | undefined
  #buffered: DeviceLog[] = []
  #dropped = 0
  #tokens = defaultRate.burst
  #refilledMs: number
  #requested: { readonly level: number; readonly untilMs: number } | undefined
  #isSending = false

  constructor(clock: Clock, birth: number) {
    this.#clock = clock
    this.#birth = birth
    this.#refilledMs = clock.nowMs()
  }

  get minLevel(): number {
    return Math.min(defaultLevel, this.#requestedLevel() ?? defaultLevel)
  }

  /** Sends lines from this level on, for this long. A later request replaces this one. */
  request(level: LogLevel, forS: number): void {
    this.#requested = { level: pino.levels.values[level]!, untilMs: this.#clock.nowMs() + forS * 1_000 }
    this.#tokens = requestedRate.burst
  }

  /** Sends the buffered lines, and every later one, over these links; to the spool while no bridge receives them. */
  start(links: LogLinks, spool: Pick<Spool, 'put'>): void {
    this.#sink = { links, spool }
    for (const line of this.#buffered.splice(0)) this.#send(line)
  }

  write(json: string): void {
    // Sending may itself log, which must not be sent in turn.
    if (this.#isSending) return
    const { number, ...fields } = toDeviceLog(json)
    if (number < this.minLevel) return
    if (!this.#takeToken()) {
      this.#dropped += 1
      return
    }
    const line: DeviceLog = { v: 1, birth: this.#birth, ...fields, dropped: this.#dropped }
    this.#dropped = 0
    this.#send(line)
  }

  #send(line: DeviceLog): void {
    if (!this.#sink) {
      this.#buffered.push(line)
      if (this.#buffered.length > maxBuffered) this.#dropOldest()
      return
    }
    this.#isSending = true
    const { links, spool } = this.#sink
    // The spool adds version, time and birth.
    const { v: _v, at: _at, birth: _birth, ...rest } = line
    if (links.hasBridge) links.publishToAll('log', JSON.stringify(line))
    else spool.put('log', rest)
    this.#isSending = false
  }

  /** Drops the oldest buffered line and counts it in the next one. */
  #dropOldest(): void {
    const [oldest, next, ...rest] = this.#buffered
    if (oldest && next) this.#buffered = [{ ...next, dropped: next.dropped + oldest.dropped + 1 }, ...rest]
  }

  #requestedLevel(): number | undefined {
    if (this.#requested && this.#clock.nowMs() >= this.#requested.untilMs) {
      this.#requested = undefined
      this.#tokens = Math.min(this.#tokens, defaultRate.burst)
    }
    return this.#requested?.level
  }

  #takeToken(): boolean {
    const { burst, perS } = this.#requestedLevel() === undefined ? defaultRate : requestedRate
    const nowMs = this.#clock.nowMs()
    this.#tokens = Math.min(burst, this.#tokens + ((nowMs - this.#refilledMs) / 1_000) * perS)
    this.#refilledMs = nowMs
    if (this.#tokens < 1) return false
    this.#tokens -= 1
    return true
  }
}
