import type { DeviceState, DeviceTelemetry } from '../../wire/protocol/messages.ts'

/** The most severe first. */
export const problemKinds = [
  'lost',
  'pending',
  'id-conflict',
  'disk-full',
  'throttled',
  'battery',
  'disk',
  'memory',
  'small-model',
  'errors',
] as const
export type ProblemKind = (typeof problemKinds)[number]
export interface Problem {
  readonly kind: ProblemKind
  /** Such as 'cooling cpufreq-cpu0', '12 %' or 'LINK_LOST'; empty where the kind needs no detail. */
  readonly detail: string
}

export type ProblemSample = Pick<DeviceTelemetry, 'at' | 'throttling' | 'battery' | 'disk' | 'memory' | 'errors'>

const minBatteryPercent = 20
/** Minimum free share of the disk and of memory, 0..1. */
const minFree = { disk: 0.1, memory: 0.05 }
/** Free bytes below which the disk stores no more jobs. */
const fullDiskBytes = 2 ** 20
/** How long an error counts as a problem. */
const errorAgeMs = 10 * 60_000

/** What needs an operator's attention, the most severe first. The samples of an absent device are out of date and ignored. */
export function problemsOf(state: DeviceState['state'] | null, sample: ProblemSample | null): Problem[] {
  if (state === 'lost') return [{ kind: 'lost', detail: '' }]
  if (sample === null || state === null || state === 'disconnected') return []
  const { throttling, battery, disk, memory } = sample
  const isDiskFull = disk?.freeBytes != null && disk.freeBytes < fullDiskBytes
  const problems: Problem[] = isDiskFull ? [{ kind: 'disk-full', detail: '' }] : []
  if (throttling?.isThrottled) problems.push({ kind: 'throttled', detail: throttling.causes.join(', ') })
  const level = battery?.levelPercent
  if (level != null && level < minBatteryPercent && battery?.state !== 'charging' && battery?.isPlugged !== true)
    problems.push({ kind: 'battery', detail: `${Math.round(level)} %` })
  if (!isDiskFull && isShort(disk, minFree.disk)) problems.push({ kind: 'disk', detail: `${usedPercent(disk)} % full` })
  if (isShort(memory, minFree.memory)) problems.push({ kind: 'memory', detail: `${usedPercent(memory)} % full` })
  const codes = recentErrors(sample)
  if (codes.length > 0) problems.push({ kind: 'errors', detail: codes.join(', ') })
  return problems
}

type Capacity = { totalBytes: number | null; freeBytes: number | null } | undefined

function isShort(capacity: Capacity, minShare: number): boolean {
  if (capacity?.totalBytes == null || capacity.freeBytes === null || capacity.totalBytes === 0) return false
  return capacity.freeBytes < minShare * capacity.totalBytes
}

const usedPercent = (capacity: Capacity) => Math.floor(100 * (1 - (capacity?.freeBytes ?? 0) / (capacity?.totalBytes ?? 1)))

/** Compares two times of the device's own clock. */
const recentErrors = ({ at, errors = [] }: ProblemSample): string[] =>
  errors.filter((error) => Date.parse(at) - Date.parse(error.at) < errorAgeMs).map(({ code }) => code)
