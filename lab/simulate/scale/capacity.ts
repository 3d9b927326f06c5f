import { z } from 'zod'
import { type ServiceLevel, stallsOf } from '../needed-gpus.ts'
import type { ScenarioResult } from '../run/result.ts'
import { perDeviceS } from './scale-scenario.ts'

const FleetDocument = z.object({
  conditions: z.object({ startedAt: z.string(), commit: z.string().nullable() }),
  summary: z.object({ restCpuPercent: z.number(), rssMb: z.number(), mostDevices: z.number() }),
})

/** One bridge with its embedded broker, as `brim bench fleet` has measured it with `devices` devices. */
export interface MeasuredBridge {
  readonly devices: number
  /** Percent of a core, at rest. */
  readonly cpuPercent: number
  readonly rssMb: number
  /** At most, before telemetry was late. */
  readonly mostDevices: number
  readonly measuredAt: string
}

/** Devices of the fleet whose CPU and memory are stated. */
const stated = 10_000

/** @param document of `brim bench fleet` @throws ZodError where it lacks these figures */
export function measuredBridge(document: unknown): MeasuredBridge {
  const { conditions, summary } = FleetDocument.parse(document)
  const { restCpuPercent, rssMb, mostDevices } = summary
  return { devices: stated, cpuPercent: restCpuPercent, rssMb, mostDevices, measuredAt: conditions.startedAt }
}

/** What a size of the fleet needs. */
export function capacityOf(
  devices: number,
  result: ScenarioResult,
  bridge: MeasuredBridge,
  run: {
    /** Of the simulator. */
    readonly rssMb: number
    readonly tookS: number
    readonly seconds: number
    /** Whether the GPUs are the least that keep the level; else as many for each device as a smaller fleet needs. */
    readonly isSearched: boolean
    readonly level: ServiceLevel
    readonly keepsLevel: boolean
  },
) {
  const { all, engines, durationS, events } = result
  const bridges = Math.ceil(devices / bridge.mostDevices)
  const share = devices / bridges / bridge.devices
  const groups = Object.values(result.devices)
  const bytes = (of: (group: (typeof groups)[number]) => number) =>
    groups.reduce((sum, group) => sum + group.count * of(group), 0) / durationS
  return {
    devices,
    requestsPerS: devices * perDeviceS,
    /** Measured, or extrapolated from it. */
    isMeasured: devices === bridge.devices,
    bridges,
    /** Percent of a core of each bridge, telemetry alone. */
    bridgeCpuPercent: bridge.cpuPercent * share,
    bridgeMb: bridge.rssMb * share,
    gpus: engines.length,
    gpuBusy: engines.reduce((sum, { busyShare }) => sum + busyShare, 0) / engines.length,
    boardsBusy: result.devices.boards?.busyShare ?? 0,
    phonesBusy: result.devices.phones?.busyShare ?? 0,
    upBytesPerS: bytes(({ upBytes }) => upBytes),
    downBytesPerS: bytes(({ downBytes }) => downBytes),
    ttftMs: all.ttftMs.mean,
    ttftP95Ms: all.ttftMs.p95,
    /** Waiting over reading time. */
    stalls: stallsOf(all),
    refused: all.refused,
    /** Tokens of sketches over those of long answers that have ended. */
    sketchedShare: (result.modes.long?.work.sketchTokens ?? 0) / Math.max(1, result.modes.long?.tokens ?? 0),
    events,
    ...run,
  }
}
export type ScaleRun = ReturnType<typeof capacityOf>
