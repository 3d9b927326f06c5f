import type { Host } from '../host.ts'
import { temperaturesOf } from '../parse/temperatures.ts'
import type { Source } from '../sample.ts'
import { sensorsOf } from './rails.ts'

const folder = '/sys/devices/virtual/thermal'
/** Cooling devices that slow processors down: cpufreq, devfreq, ACPI. Fans do not count. */
const clockHolder = /^(?:thermal-)?(?:cpufreq|devfreq)|^Processor$/

/** Temperatures, and the causes of throttling. The zone of an idle engine may be unreadable. */
export function thermal(host: Host): Source {
  return {
    name: 'thermal',
    async read() {
      const names = await host.list(folder)
      const zones = await Promise.all(
        byNumber(names, 'thermal_zone').map(async (zone) => {
          const [type, milli] = await Promise.all([host.text(`${folder}/${zone}/type`), host.number(`${folder}/${zone}/temp`)])
          return type === undefined || milli === undefined ? [] : [[type.trim(), milli / 1_000] as const]
        }),
      )
      const holders = await Promise.all(byNumber(names, 'cooling_device').map((name) => readHolder(name)))
      const alarms = await alarmsOf(host)
      const known = holders.filter((holder) => holder !== undefined)
      const causes = [...known.flatMap(({ type, isActive }) => (isActive ? [`cooling ${type}`] : [])), ...alarms.on]
      const isThrottled = known.length + alarms.count > 0 ? causes.length > 0 : null
      return { temperatures: temperaturesOf(zones.flat()), throttling: { isThrottled, causes: [...new Set(causes)] } }
    },
  }

  async function readHolder(name: string): Promise<{ type: string; isActive: boolean } | undefined> {
    const type = (await host.text(`${folder}/${name}/type`))?.trim()
    if (type === undefined || !clockHolder.test(type)) return undefined
    const state = await host.number(`${folder}/${name}/cur_state`)
    return state === undefined ? undefined : { type, isActive: state > 0 }
  }
}

/** Over-current alarms of the power rails: over-current throttles a Jetson as heat does. */
async function alarmsOf(host: Host): Promise<{ count: number; on: string[] }> {
  let count = 0
  const on: string[] = []
  for (const sensor of await sensorsOf(host)) {
    const files = (await host.list(sensor)).filter((name) => /^curr[1-3]_(?:max|crit)_alarm$/.test(name))
    for (const file of files) {
      const alarm = await host.number(`${sensor}/${file}`)
      if (alarm === undefined) continue
      count++
      const label = (await host.text(`${sensor}/in${file[4]}_label`))?.trim()
      if (alarm > 0) on.push(`over-current ${label ?? file}`)
    }
  }
  return { count, on }
}

/** Sorted by number: zone 2 before zone 10. */
function byNumber(names: readonly string[], prefix: string): string[] {
  const number = (name: string) => Number(name.slice(prefix.length))
  return names.filter((name) => name.startsWith(prefix)).sort((a, b) => number(a) - number(b))
}
