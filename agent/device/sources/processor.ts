import type { Host } from '../host.ts'
import { type CpuTimes, cpuPercent, parseCpuTimes, parseMeminfo } from '../parse/proc.ts'
import type { Source } from '../sample.ts'

/** Load of all cores since the previous sample, the highest clock, and memory. */
export function processor(host: Host): Source {
  let last: CpuTimes | undefined
  const policies = '/sys/devices/system/cpu/cpufreq'
  return {
    name: 'processor',
    async read() {
      const [stat = '', meminfo = '', names] = await Promise.all([
        host.text('/proc/stat'),
        host.text('/proc/meminfo'),
        host.list(policies),
      ])
      const clocks = await Promise.all(
        names.filter((name) => name.startsWith('policy')).map((name) => host.number(`${policies}/${name}/scaling_cur_freq`)),
      )
      const known = clocks.filter((khz) => khz !== undefined)
      const now = parseCpuTimes(stat)
      const percent = last && now ? cpuPercent(last, now) : undefined
      last = now
      return {
        device: { cores: now?.cores || null },
        load: { cpuPercent: percent ?? null, cpuMHz: known.length > 0 ? Math.round(Math.max(...known) / 1_000) : null },
        memory: parseMeminfo(meminfo),
      }
    },
  }
}
