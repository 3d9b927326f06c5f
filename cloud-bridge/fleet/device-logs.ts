import { nowIso } from '../../core/base/clock.ts'
import { DeviceLog, type LogLevel, logLevels } from '../../core/protocol/commands.ts'
import type { LogLine } from '../../core/protocol/http/devices.ts'
import { readMessage } from '../../core/protocol/read-message.ts'
import type { OnUnreadable } from '../link/faults.ts'

/** Retained for each device: lines, and characters of their JSON. */
const maxLines = 500
const maxChars = 256 * 1024

interface Log {
  count: number
  chars: number
  lines: { line: LogLine; chars: number }[]
}

/** The latest log lines of every device, in memory. */
export class DeviceLogs {
  readonly #logs = new Map<string, Log>()
  readonly #onUnreadable: OnUnreadable

  constructor(onUnreadable: OnUnreadable) {
    this.#onUnreadable = onUnreadable
  }

  /** A line as the broker delivered it. @returns whether it is readable */
  add(device: string, payload: Uint8Array): boolean {
    const read = readMessage(DeviceLog, payload)
    if (read.kind === 'unreadable') {
      this.#onUnreadable(device, 'log', read.reason)
      return false
    }
    const log = this.#logs.get(device) ?? { count: 0, chars: 0, lines: [] }
    this.#logs.set(device, log)
    const { v: _, ...message } = read.message
    log.count += 1
    const line = { n: log.count, heardAt: nowIso(), ...message }
    const chars = JSON.stringify(line).length
    log.lines.push({ line, chars })
    log.chars += chars
    while (log.lines.length > maxLines || log.chars > maxChars) log.chars -= log.lines.shift()!.chars
    return true
  }

  /** The last `limit` lines of this level and the more severe ones, after line `after`; the oldest first. */
  of(device: string, level: LogLevel, limit: number, after = 0): LogLine[] {
    const levels = logLevels.slice(0, logLevels.indexOf(level) + 1)
    const found = (this.#logs.get(device)?.lines ?? []).filter(({ line }) => line.n > after && levels.includes(line.level))
    return found.slice(Math.max(0, found.length - limit)).map(({ line }) => line)
  }
}
