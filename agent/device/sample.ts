import type { DeviceCondition } from '../../core/wire/protocol/device-condition.ts'

/** The sections that sources fill in; the agent adds the others. */
export type Sample = Omit<DeviceCondition, 'errors' | 'answers' | 'jobs' | 'spool' | 'bundles' | 'spending'>
export type SamplePart = { readonly [Section in keyof Sample]?: Partial<Sample[Section]> | undefined }

export interface Source {
  readonly name: string
  /** @param warn logs a name that this release does not know; repeats are ignored */
  read(signal: AbortSignal, warn: (unknown: string) => void): Promise<SamplePart>
}

/** A sample in which nothing is known. */
export function blank(kind: string): Sample {
  return {
    device: {
      kind,
      model: null,
      module: null,
      soc: null,
      l4t: null,
      jetpack: null,
      os: null,
      kernel: null,
      powerMode: null,
      cores: null,
      uptimeS: null,
      agent: null,
      modelId: null,
    },
    load: { cpuPercent: null, gpuPercent: null, emcPercent: null, cpuMHz: null, gpuMHz: null, emcMHz: null },
    memory: { totalBytes: null, freeBytes: null, swapTotalBytes: null, swapFreeBytes: null, gpuUsedBytes: null },
    temperatures: { hottestC: null, zonesC: {} },
    throttling: { isThrottled: null, causes: [] },
    power: { railsW: {}, totalW: null, scope: null, jPerToken: null },
    battery: null,
    fan: null,
    disk: { totalBytes: null, freeBytes: null },
    network: {},
  }
}

/** Merges parts into a sample; the first part that has a figure wins. */
export function merge(known: Sample, parts: readonly SamplePart[]): Sample {
  const merged: Record<string, unknown> = { ...known }
  for (const part of parts) for (const [section, more] of Object.entries(part)) merged[section] = fill(merged[section], more)
  return merged as Sample
}

/** Adds the figures that a section lacks. */
function fill(known: unknown, more: unknown): unknown {
  if (!isRecord(known) || !isRecord(more)) return known ?? more ?? null
  const missing = Object.entries(more).filter(([name, value]) => value !== undefined && isUnknown(known[name]))
  return { ...known, ...Object.fromEntries(missing) }
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
const isUnknown = (value: unknown) =>
  value === null || value === undefined || (typeof value === 'object' && Object.keys(value).length === 0)
