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
export interface ScaleRun {
  readonly devices: number
  readonly requestsPerS: number
  /** Measured, or extrapolated from it: see `isMeasured`. */
  readonly bridges: number
  /** Percent of a core of each bridge, telemetry alone. */
  readonly bridgeCpuPercent: number
  readonly bridgeMb: number
  readonly isMeasured: boolean
  /** The least that keep the level, or as many for each device as a smaller fleet needs. */
  readonly gpus: number
  readonly isSearched: boolean
  readonly level: ServiceLevel
  readonly keepsLevel: boolean
  readonly gpuBusy: number
  readonly boardsBusy: number
  readonly phonesBusy: number
  readonly upBytesPerS: number
  readonly downBytesPerS: number
  readonly ttftMs: number
  readonly ttftP95Ms: number
  /** Waiting over reading time. */
  readonly stalls: number
  readonly refused: Readonly<Record<string, number>>
  /** Tokens of sketches over those of long answers that have ended. */
  readonly sketchedShare: number
  /** Of the simulator. */
  readonly seconds: number
  readonly events: number
  readonly rssMb: number
  readonly tookS: number
}

export function capacityOf(
  devices: number,
  result: ScenarioResult,
  bridge: MeasuredBridge,
  run: Pick<ScaleRun, 'rssMb' | 'tookS' | 'level' | 'isSearched' | 'keepsLevel' | 'seconds'>,
): ScaleRun {
  const { all, engines, durationS, events } = result
  const bridges = Math.ceil(devices / bridge.mostDevices)
  const share = devices / bridges / bridge.devices
  const groups = Object.values(result.devices)
  const bytes = (of: (group: (typeof groups)[number]) => number) =>
    groups.reduce((sum, group) => sum + group.count * of(group), 0) / durationS
  return {
    devices,
    requestsPerS: devices * perDeviceS,
    bridges,
    bridgeCpuPercent: bridge.cpuPercent * share,
    bridgeMb: bridge.rssMb * share,
    isMeasured: devices === bridge.devices,
    gpus: engines.length,
    gpuBusy: engines.reduce((sum, { busyShare }) => sum + busyShare, 0) / engines.length,
    boardsBusy: result.devices.boards?.busyShare ?? 0,
    phonesBusy: result.devices.phones?.busyShare ?? 0,
    upBytesPerS: bytes(({ upBytes }) => upBytes),
    downBytesPerS: bytes(({ downBytes }) => downBytes),
    ttftMs: all.ttftMs.mean,
    ttftP95Ms: all.ttftMs.p95,
    stalls: stallsOf(all),
    refused: all.refused,
    sketchedShare: (result.modes.long?.work.sketchTokens ?? 0) / Math.max(1, result.modes.long?.tokens ?? 0),
    events,
    ...run,
  }
}
