import type { Sample } from '../sample.ts'

/** Parses /proc/meminfo. A missing field is null; only a Jetson has NvMapMemUsed. */
export function parseMeminfo(text: string): Partial<Sample['memory']> {
  const bytes = (name: string) => {
    const kib = new RegExp(`^${name}:\\s*(\\d+) kB$`, 'm').exec(text)?.[1]
    return kib === undefined ? null : Number(kib) * 1024
  }
  return {
    totalBytes: bytes('MemTotal'),
    freeBytes: bytes('MemAvailable') ?? bytes('MemFree'),
    swapTotalBytes: bytes('SwapTotal'),
    swapFreeBytes: bytes('SwapFree'),
    gpuUsedBytes: bytes('NvMapMemUsed'),
  }
}

/** Sum over all cores, in ticks since boot. */
export interface CpuTimes {
  readonly busy: number
  readonly total: number
  readonly cores: number
}

/** Parses /proc/stat. Guest times are included in user and nice. */
export function parseCpuTimes(text: string): CpuTimes | undefined {
  const ticks = /^cpu\s+(.*)$/m.exec(text)?.[1]?.trim().split(/\s+/).slice(0, 8).map(Number)
  if (!ticks || ticks.length < 4 || ticks.some((tick) => !Number.isFinite(tick))) return undefined
  const total = ticks.reduce((sum, tick) => sum + tick, 0)
  const waiting = ticks[3]! + (ticks[4] ?? 0)
  return { busy: total - waiting, total, cores: text.match(/^cpu\d+ /gm)?.length ?? 0 }
}

/** @returns 0..100; undefined if no time has passed */
export function cpuPercent(then: CpuTimes, now: CpuTimes): number | undefined {
  const total = now.total - then.total
  if (total <= 0) return undefined
  // iowait may count backwards.
  const part = Math.min(1, Math.max(0, (now.busy - then.busy) / total))
  return Math.round(part * 1_000) / 10
}
