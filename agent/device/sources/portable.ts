import { availableParallelism, cpus, freemem, type as osType, release, totalmem, uptime } from 'node:os'
import { type CpuTimes, cpuPercent } from '../parse/proc.ts'
import type { Source } from '../sample.ts'

/** Figures of Node itself, for systems without /proc: macOS, Windows. */
export function portable(): Source {
  let last: CpuTimes | undefined
  return {
    name: 'portable',
    async read() {
      const now = times()
      const percent = last ? cpuPercent(last, now) : undefined
      last = now
      return {
        device: { os: osType(), kernel: release(), cores: availableParallelism(), uptimeS: Math.round(uptime()) },
        load: { cpuPercent: percent ?? null },
        memory: { totalBytes: totalmem(), freeBytes: freemem() },
      }
    },
  }
}

function times(): CpuTimes {
  const all = cpus().map(({ times: { user, nice, sys, irq, idle } }) => ({ busy: user + nice + sys + irq, idle }))
  const busy = all.reduce((sum, core) => sum + core.busy, 0)
  return { busy, total: busy + all.reduce((sum, core) => sum + core.idle, 0), cores: all.length }
}
