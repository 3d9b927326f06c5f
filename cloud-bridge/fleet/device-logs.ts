import { nowIso } from '../../core/base/clock.ts'
import { DeviceLog, type LogLevel, logLevels } from '../../core/protocol/commands.ts'
import { readMessage } from '../../core/protocol/read-message.ts'
import type { OnUnreadable } from '../link/faults.ts'

/** One line of `GET /v1/devices/<id>/log`. */
export interface LogLine extends Omit<DeviceLog, 'v'> {
  /** Counts the lines of this device, since this bridge started. */
  readonly n: number
  /** By this bridge's clock. */
  readonly heardAt: string
}

/** Of each device. */
const remembered = 500

/** The latest lines of every device's log, in memory. */
export class DeviceLogs {
  readonly #lines = new Map<string, LogLine[]>()
  readonly #counts = new Map<string, number>()
  readonly #onUnreadable: OnUnreadable

  constructor(onUnreadable: OnUnreadable) {
    this.#onUnreadable = onUnreadable
  }

  /** A line as it came from the broker. @returns whether it could be read */
  heard(device: string, payload: Uint8Array): boolean {
    const said = readMessage(DeviceLog, payload)
    if (said.kind === 'unreadable') {
      this.#onUnreadable(device, 'log', said.reason)
      return false
    }
    const n = (this.#counts.get(device) ?? 0) + 1
    this.#counts.set(device, n)
    const { v: _, ...line } = said.message
    const lines = this.#lines.get(device) ?? []
    lines.push({ n, heardAt: nowIso(), ...line })
    if (lines.length > remembered) lines.shift()
    this.#lines.set(device, lines)
    return true
  }

  /** Those of this level and above, after line `after`: the last `limit`, the oldest first. */
  of(device: string, level: LogLevel, limit: number, after = 0): LogLine[] {
    const wanted = logLevels.slice(0, logLevels.indexOf(level) + 1)
    const lines = this.#lines.get(device) ?? []
    return lines.filter((line) => line.n > after && wanted.includes(line.level)).slice(-limit)
  }
}
