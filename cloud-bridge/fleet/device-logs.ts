import { nowIso } from '../../core/kit/base/clock.ts'
import { DeviceLog, type LogLevel, logLevels } from '../../core/wire/protocol/commands.ts'
import type { LogLine } from '../../core/wire/protocol/http/devices.ts'
import { readMessage } from '../../core/wire/protocol/read-message.ts'
import type { OnUnreadable } from '../link/faults.ts'

const maxLines = 500

export interface DeviceLogsLimits {
  /** Of the lines of one device, as JSON. */
  readonly deviceBytes: number
  /** Of the lines of all devices. */
  readonly totalBytes: number
}

interface Log {
  count: number
  bytes: number
  lines: { line: LogLine; bytes: number }[]
}

/** The latest log lines of every device, in memory. */
export class DeviceLogs {
  readonly #logs = new Map<string, Log>()
  readonly #limits: DeviceLogsLimits
  readonly #isRegistered: (device: string) => boolean
  readonly #onUnreadable: OnUnreadable
  #bytes = 0

  /** @param isRegistered lines of other devices are ignored: their number is not limited */
  constructor(limits: DeviceLogsLimits, isRegistered: (device: string) => boolean, onUnreadable: OnUnreadable) {
    this.#limits = limits
    this.#isRegistered = isRegistered
    this.#onUnreadable = onUnreadable
  }

  /** A line as the broker delivered it. @returns whether it is retained */
  add(device: string, payload: Uint8Array): boolean {
    const read = readMessage(DeviceLog, payload)
    if (read.kind === 'unreadable') {
      this.#onUnreadable(device, 'log', read.reason)
      return false
    }
    if (!this.#isRegistered(device)) return false
    const log = this.#logs.get(device) ?? { count: 0, bytes: 0, lines: [] }
    this.#logs.set(device, log)
    const { v: _, ...message } = read.message
    log.count += 1
    const line = { n: log.count, heardAt: nowIso(), ...message }
    const bytes = Buffer.byteLength(JSON.stringify(line))
    log.lines.push({ line, bytes })
    log.bytes += bytes
    this.#bytes += bytes
    this.#trim(log, this.#limits.deviceBytes)
    if (this.#bytes > this.#limits.totalBytes) this.#trimAll()
    return true
  }

  #trim(log: Log, maxBytes: number): void {
    while (log.lines.length > maxLines || log.bytes > maxBytes) {
      const { bytes } = log.lines.shift()!
      log.bytes -= bytes
      this.#bytes -= bytes
    }
  }

  /** Trims the logs above their share to it. Half is freed, so that this happens seldom. */
  #trimAll(): void {
    const share = this.#limits.totalBytes / 2 / this.#logs.size
    for (const log of this.#logs.values()) this.#trim(log, share)
  }

  /** Deletes the lines of devices that are not `known`. */
  forgetExcept(known: (device: string) => boolean): void {
    for (const [device, { bytes }] of this.#logs) {
      if (known(device)) continue
      this.#logs.delete(device)
      this.#bytes -= bytes
    }
  }

  /** The last `limit` lines of this level and the more severe ones, after line `after`; the oldest first. */
  of(device: string, level: LogLevel, limit: number, after = 0): LogLine[] {
    const levels = logLevels.slice(0, logLevels.indexOf(level) + 1)
    const found = (this.#logs.get(device)?.lines ?? []).filter(({ line }) => line.n > after && levels.includes(line.level))
    return found.slice(Math.max(0, found.length - limit)).map(({ line }) => line)
  }
}
