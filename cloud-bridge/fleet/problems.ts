import type { DeviceState } from '../../core/protocol/messages.ts'
import type { LastTelemetry } from './registry.ts'

/** The worst first. */
export const problemKinds = ['lost', 'throttled', 'battery', 'disk', 'memory', 'errors'] as const
export type ProblemKind = (typeof problemKinds)[number]
export interface Problem {
  readonly kind: ProblemKind
  /** 'cooling cpufreq-cpu0', '12 %', 'LINK_LOST'; '' where the kind says it all. */
  readonly detail: string
}

const lowBatteryPercent = 20
/** Of a disk, or of memory, what is left free at the least. */
const leastFreeDisk = 0.1
const leastFreeMemory = 0.05
/** Errors are news for so long. */
const recentMs = 10 * 60_000

/** What an operator should look at, the worst first. What a device that is away has measured is no news. */
export function problemsOf(state: DeviceState['state'] | null, telemetry: LastTelemetry | null): Problem[] {
  if (state === 'lost') return [{ kind: 'lost', detail: '' }]
  if (telemetry === null || state === null || state === 'disconnected') return []
  const { throttling, battery, disk, memory } = telemetry
  const found: Problem[] = []
  if (throttling?.isThrottled) found.push({ kind: 'throttled', detail: throttling.causes.join(', ') })
  const level = battery?.levelPercent
  if (level != null && level < lowBatteryPercent && battery?.state !== 'charging' && battery?.isPlugged !== true)
    found.push({ kind: 'battery', detail: `${Math.round(level)} %` })
  if (isShort(disk, leastFreeDisk)) found.push({ kind: 'disk', detail: `${usedPercent(disk)} % full` })
  if (isShort(memory, leastFreeMemory)) found.push({ kind: 'memory', detail: `${usedPercent(memory)} % full` })
  const codes = recentErrors(telemetry)
  if (codes.length > 0) found.push({ kind: 'errors', detail: codes.join(', ') })
  return found
}

type Room = { totalBytes: number | null; freeBytes: number | null } | undefined

function isShort(room: Room, least: number): boolean {
  if (room?.totalBytes == null || room.freeBytes === null || room.totalBytes === 0) return false
  return room.freeBytes < least * room.totalBytes
}

const usedPercent = (room: Room) => Math.floor(100 * (1 - (room?.freeBytes ?? 0) / (room?.totalBytes ?? 1)))

/** Both times are the device's own. */
function recentErrors({ at, errors = [] }: LastTelemetry): string[] {
  return errors.filter((error) => Date.parse(at) - Date.parse(error.at) < recentMs).map(({ code }) => code)
}
