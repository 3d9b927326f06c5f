import type { Systeminformation } from 'systeminformation'
import type { Clock } from '../../../core/kit/base/clock.ts'
import type { SamplePart, Source } from '../sample.ts'

/** The functions in use. Each starts a process or two on systems without /proc. */
type SystemInformation = Pick<typeof import('systeminformation'), 'system' | 'osInfo' | 'battery' | 'cpuTemperature' | 'mem'>

/** How long its results are used. */
const everyMs = 60_000

/** Loaded only where no better source exists: it costs time and memory. */
const loaded = async (): Promise<SystemInformation> => (await import('systeminformation')).default

/** Model, battery, temperature and memory on systems without /proc: macOS, Windows, BSD. */
export function systemInformation(clock: Clock, load = loaded): Source {
  let identity: SamplePart['device']
  let last: { readonly part: SamplePart; readonly untilMs: number } | undefined

  async function ask(): Promise<SamplePart> {
    const { system, osInfo, battery, cpuTemperature, mem } = await load()
    identity ??= identityOf(await system(), await osInfo())
    const [power, heat, memory] = await Promise.all([battery(), cpuTemperature(), mem()])
    return { device: identity, battery: batteryOf(power), temperatures: temperaturesOf(heat), memory: memoryOf(memory) }
  }

  return {
    name: 'systeminformation',
    async read() {
      if (last && clock.nowMs() < last.untilMs) return last.part
      const part = await ask()
      last = { part, untilMs: clock.nowMs() + everyMs }
      return part
    },
  }
}

const words = (...parts: readonly string[]) => parts.filter((part) => part !== '' && part !== '-').join(' ') || null

const identityOf = (
  { manufacturer, model }: Systeminformation.SystemData,
  { distro, release }: Systeminformation.OsData,
): NonNullable<SamplePart['device']> => ({ model: words(manufacturer, model), os: words(distro, release) })

/** Without a battery the package reports 0 %. */
function batteryOf({ hasBattery, percent, isCharging, acConnected }: Systeminformation.BatteryData): SamplePart['battery'] {
  if (!hasBattery) return null
  const plugged = percent >= 100 ? 'full' : 'idle'
  return {
    levelPercent: Math.min(100, Math.max(0, percent)),
    state: isCharging ? 'charging' : acConnected ? plugged : 'discharging',
    powerW: null,
    tempC: null,
    isPlugged: acConnected,
  }
}

/** Unknown is null, or -1 in older releases of the package. */
function temperaturesOf({ main }: Systeminformation.CpuTemperatureData): SamplePart['temperatures'] {
  const celsius: number | null = main
  return celsius !== null && celsius > 0 ? { hottestC: celsius, zonesC: { cpu: celsius } } : {}
}

/** `available` includes reclaimable memory, which Node's figure omits on macOS. */
const memoryOf = ({ total, available, swaptotal, swapfree }: Systeminformation.MemData): SamplePart['memory'] => ({
  totalBytes: total,
  freeBytes: available,
  swapTotalBytes: swaptotal,
  swapFreeBytes: swapfree,
})
