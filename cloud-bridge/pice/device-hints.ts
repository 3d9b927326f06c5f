import { isPresent, takesJobs } from '../../core/policy/fleet/presence.ts'
import type { DeviceHints, DevicePresence } from '../../core/policy/pice/fleet-device.ts'
import type { LatestTelemetry } from '../../core/wire/protocol/http/devices.ts'
import type { JobKind } from '../../core/wire/protocol/jobs.ts'
import type { DeviceState } from '../../core/wire/protocol/messages.ts'

const kind: JobKind = 'pice.expand'
const profileKind: JobKind = 'profile'
/** What a sketch with its question, and an expanded sentence, are about in bytes. */
const sketchBytes = 2_048
const sentenceBytes = 512

/** Null: the device is not connected, or expands no sketches. */
export const presenceOf = ({ state, jobs = [] }: DeviceState): DevicePresence | null =>
  isPresent(state) && jobs.includes(kind) ? { takesJobs: takesJobs(state), canProfile: jobs.includes(profileKind) } : null

/** Rates of a link that are not measured count as no time. */
export function hintsOf(telemetry: LatestTelemetry | null): DeviceHints {
  const { rttMs = 0, upBytesPerS = 0, downBytesPerS = 0 } = telemetry?.link ?? {}
  const transferS = (bytes: number, bytesPerS: number | null) => (bytesPerS ? bytes / bytesPerS : 0)
  return {
    current: telemetry?.bundles?.slm?.name,
    networkS: (rttMs ?? 0) / 1_000 + transferS(sketchBytes, downBytesPerS) + transferS(sentenceBytes, upBytesPerS),
  }
}
