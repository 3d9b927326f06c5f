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

/** Of each device: lines, and characters of their JSON; what a device may say at once is far more than a line needs. */
const remembered = 500
const rememberedChars = 256 * 1024

/** The latest lines of every device's log, in memory. */
export class DeviceLogs {
  readonly #devices = new Map<string, { count: number; chars: number; lines: { line: LogLine; chars: number }[] }>()
  readonly #onUnreadable: OnUnreadable

  constructor(onUnreadable: OnUnreadable) {
    this.#onUnreadable = onUnreadable
  }

  /** A line as it came from the broker. @returns whether it could be read */
  add(device: string, payload: Uint8Array): boolean {
    const said = readMessage(DeviceLog, payload)
    if (said.kind === 'unreadable') {
      this.#onUnreadable(device, 'log', said.reason)
      return false
    }
    const known = this.#devices.get(device) ?? { count: 0, chars: 0, lines: [] }
    this.#devices.set(device, known)
    const { v: _, ...message } = said.message
    known.count += 1
    const line = { n: known.count, heardAt: nowIso(), ...message }
    const chars = JSON.stringify(line).length
    known.lines.push({ line, chars })
    known.chars += chars
    while (known.lines.length > remembered || known.chars > rememberedChars) known.chars -= known.lines.shift()!.chars
    return true
  }

  /** Those of this level and above, after line `after`: the last `limit`, the oldest first. */
  of(device: string, level: LogLevel, limit: number, after = 0): LogLine[] {
    const wanted = logLevels.slice(0, logLevels.indexOf(level) + 1)
    const found = (this.#devices.get(device)?.lines ?? []).filter(({ line }) => line.n > after && wanted.includes(line.level))
    return found.slice(Math.max(0, found.length - limit)).map(({ line }) => line)
  }
}
