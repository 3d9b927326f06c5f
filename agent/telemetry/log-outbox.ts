import { pino } from 'pino'
import type { Clock } from '../../core/base/clock.ts'
import type { LogTap } from '../../core/base/logger.ts'
import type { DeviceLog, LogLevel } from '../../core/protocol/commands.ts'
import { lineToTell } from './log-line.ts'

/** What is told without being asked for. */
const ownLevel = 40
/** Lines of a start, before there is a spool. */
const mostWaiting = 100
/** Lines that may go at once, and per second from then on: by itself, and while somebody reads. */
const ownRate = { burst: 50, perS: 2 }
const askedRate = { burst: 200, perS: 100 }

/** What is told while nobody hears. */
export interface LogSpooling {
  /** Whether any bridge does. */
  isHeard(): boolean
  put(line: DeviceLog): void
}

/**
 * The device's log on its way to the bridges: warnings and errors, or more while somebody wants it. Never more than its
 * rate; while no bridge hears, lines are spooled.
 */
export class LogOutbox implements LogTap {
  readonly #clock: Clock
  readonly #birth: () => number
  readonly #links = new Map<string, (line: string) => void>()
  #waiting: DeviceLog[] = []
  #spooling: LogSpooling | undefined
  #dropped = 0
  #room = ownRate.burst
  #filledMs: number
  /** The level that was asked for, and until when. */
  #asked: { readonly number: number; readonly untilMs: number } | undefined
  #isTelling = false

  /** @param birth of this start; lines before it is known wait */
  constructor(clock: Clock, birth: () => number) {
    this.#clock = clock
    this.#birth = birth
    this.#filledMs = clock.nowMs()
  }

  get minLevel(): number {
    const asked = this.#wanted()
    return asked === undefined ? ownLevel : Math.min(ownLevel, asked)
  }

  /** From now on, for so long; a later wish takes its place. */
  ask(level: LogLevel, forS: number): void {
    this.#asked = { number: pino.levels.values[level]!, untilMs: this.#clock.nowMs() + forS * 1_000 }
    this.#room = askedRate.burst
  }

  /** The connection to a bridge, or that there is none. */
  onLink(link: string, publish: ((line: string) => void) | undefined): void {
    if (!publish) return void this.#links.delete(link)
    this.#links.set(link, publish)
  }

  /** From now on, and for what waits: where lines go that nobody hears. */
  spoolTo(spooling: LogSpooling): void {
    this.#spooling = spooling
    const waiting = this.#waiting
    this.#waiting = []
    for (const line of waiting) this.#tell(line)
  }

  write(json: string): void {
    // Telling may itself log: that would never end.
    if (this.#isTelling) return
    const { number, ...told } = lineToTell(json)
    if (number < this.minLevel) return
    if (!this.#takeRoom()) {
      this.#dropped += 1
      return
    }
    const line: DeviceLog = { v: 1, birth: this.#birth(), ...told, dropped: this.#dropped }
    this.#dropped = 0
    this.#tell(line)
  }

  #tell(line: DeviceLog): void {
    if (!this.#spooling) {
      this.#waiting.push(line)
      if (this.#waiting.length > mostWaiting) this.#forgetOldest()
      return
    }
    this.#isTelling = true
    if (this.#spooling.isHeard()) for (const publish of this.#links.values()) publish(JSON.stringify(line))
    else this.#spooling.put(line)
    this.#isTelling = false
  }

  /** The line after it tells that it was. */
  #forgetOldest(): void {
    const [oldest, next, ...rest] = this.#waiting
    if (oldest && next) this.#waiting = [{ ...next, dropped: next.dropped + oldest.dropped + 1 }, ...rest]
  }

  #wanted(): number | undefined {
    if (this.#asked && this.#clock.nowMs() >= this.#asked.untilMs) {
      this.#asked = undefined
      this.#room = Math.min(this.#room, ownRate.burst)
    }
    return this.#asked?.number
  }

  /** A token bucket. */
  #takeRoom(): boolean {
    const { burst, perS } = this.#wanted() === undefined ? ownRate : askedRate
    const nowMs = this.#clock.nowMs()
    this.#room = Math.min(burst, this.#room + ((nowMs - this.#filledMs) / 1_000) * perS)
    this.#filledMs = nowMs
    if (this.#room < 1) return false
    this.#room -= 1
    return true
  }
}
