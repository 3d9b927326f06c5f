import type { SamplePart } from '../sample.ts'
import { powerOf } from './power.ts'
import { temperaturesOf } from './temperatures.ts'

export interface Tegrastats {
  readonly part: SamplePart
  /** Names of skipped words. */
  readonly unknown: readonly string[]
}

/**
 * Parses one line of tegrastats, of any board from Nano to Thor and JetPack 4 to 7. Memory comes from /proc/meminfo instead.
 * Of repeated figures (now/mean/peak) the first counts. A missing load stays unknown: Thor prints only the clocks of the GPU.
 */
export function parseTegrastats(line: string): Tegrastats {
  const load: { -readonly [K in keyof NonNullable<SamplePart['load']>]: NonNullable<SamplePart['load']>[K] } = {}
  const zones: [string, number][] = []
  const railsMw: Record<string, number> = {}
  const unknown: string[] = []
  /** Patterns, in the order in which they are tried. */
  const words: [RegExp, (match: RegExpExecArray) => void][] = [
    [/\d{2}-\d{2}-\d{4} \d{2}:\d{2}:\d{2}/y, () => {}],
    [/(?:RAM|SWAP|IRAM) \d+\/\d+[kMG]B/y, () => {}],
    [/\((?:lfb|cached) [^)]*\)/y, () => {}],
    [/CPU \[([^\]]*)\]/y, ([, cores = '']) => Object.assign(load, cpuOf(cores))],
    [
      /(EMC|GR3D)_FREQ (?:off|(?:(\d+)%)?(?:@\[?(\d+)[\d,]*\]?)?)(?=\s|$)/y,
      ([, unit, percent, mhz]) => {
        const [name, clock] = unit === 'EMC' ? (['emcPercent', 'emcMHz'] as const) : (['gpuPercent', 'gpuMHz'] as const)
        if (percent !== undefined && Number(percent) <= 100) load[name] = Number(percent)
        if (mhz !== undefined) load[clock] = Number(mhz)
      },
    ],
    [/([\w.-]+)@(-?\d+(?:\.\d+)?)C(?:\/-?[\d.]+C)?(?=\s|$)/y, ([, zone = '', celsius]) => zones.push([zone, Number(celsius)])],
    [
      /([A-Z]\w*) (\d+)(?:mW)?(?:\/\d+(?:mW)?)+(?=\s|$)/y,
      ([, rail = '', milliwatts]) => {
        railsMw[rail] = Number(milliwatts)
      },
    ],
    // Engines for video, audio, images and deep learning, which are not reported.
    [/[A-Z]\w* (?:off|\d+%?(?:@\[?[\d,]+\]?)?|@\[?[\d,]+\]?)(?=\s|$)/y, () => {}],
    [/(\S+)/y, ([, word = '']) => unknown.push(word.replace(/[@=:].*$/, ''))],
  ]
  for (let at = 0; at < line.length; ) {
    if (/\s/.test(line[at]!)) {
      at++
      continue
    }
    for (const [word, take] of words) {
      word.lastIndex = at
      const match = word.exec(line)
      if (!match || match[0] === '') continue
      take(match)
      at = word.lastIndex
      break
    }
  }
  const temperatures = zones.length > 0 ? { temperatures: temperaturesOf(zones) } : {}
  return { part: { load, power: powerOf(railsMw), ...temperatures }, unknown }
}

/** Parses "6%@102,5%@102,off": mean load of the cores that are on, and their highest clock. */
function cpuOf(cores: string): { cpuPercent?: number; cpuMHz?: number } {
  const on = [...cores.matchAll(/(\d+)%@(\d+)/g)].map(([, percent, mhz]) => ({ percent: Number(percent), mhz: Number(mhz) }))
  if (on.length === 0) return {}
  const mean = on.reduce((sum, { percent }) => sum + percent, 0) / on.length
  return { cpuPercent: Math.min(100, Math.round(mean * 10) / 10), cpuMHz: Math.max(...on.map(({ mhz }) => mhz)) }
}
