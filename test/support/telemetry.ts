import { TelemetryReader } from '../../cloud-bridge/fleet/telemetry-reader.ts'
import type { DeviceTelemetry } from '../../core/wire/protocol/messages.ts'

/** The samples in a device's telemetry messages, as a bridge rebuilds them; deltas whose base is not among them are left out. */
export function samplesIn(messages: readonly string[]): DeviceTelemetry[] {
  const reader = new TelemetryReader(2 ** 16)
  return messages.flatMap((text) => {
    const read = reader.read('device', Buffer.from(text), true)
    if (read.kind === 'unreadable') throw new Error(read.reason)
    return read.kind === 'message' ? [read.message.telemetry] : []
  })
}
