import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/** One core for the bridge, another for everything else. */
export interface Cores {
  readonly bridge: number
  readonly others: number
  /** Lets this process use its earlier cores again. */
  release(): void
}

/** Words before a command that pin it to a core. */
export const pinnedTo = (core: number): string[] => ['taskset', '-c', String(core)]

/** Leaves one core to the bridge and pins this process to another; undefined where that is impossible. */
export function separateCores(): Cores | undefined {
  const allowed = ownCores()
  if (!allowed || allowed.length < 2) return undefined
  const [bridge, others] = allowed as [number, number]
  try {
    pin([others])
  } catch {
    return undefined
  }
  return { bridge, others, release: () => pin(allowed) }
}

/** The cores that this process may run on; undefined without taskset. */
function ownCores(): number[] | undefined {
  try {
    const output = execFileSync('taskset', ['-c', '-p', String(process.pid)], { stdio: ['ignore', 'pipe', 'ignore'] }).toString()
    const list = /: ([\d,-]+)\s*$/.exec(output)?.[1]
    return list?.split(',').flatMap((range) => {
      const [from, to] = range.split('-').map(Number) as [number, number?]
      return Array.from({ length: (to ?? from) - from + 1 }, (_, i) => from + i)
    })
  } catch {
    return undefined
  }
}

/** Pins all threads of this process. */
function pin(cores: readonly number[]): void {
  execFileSync('taskset', ['-a', '-c', '-p', cores.join(','), String(process.pid)], { stdio: 'ignore' })
}

/** Unit of CPU time in /proc (USER_HZ), the same on every Linux. */
const ticksPerS = 100

/** CPU time of these processes so far, in seconds; undefined without /proc. */
export function cpuSeconds(pids: readonly number[]): number | undefined {
  try {
    return pids.reduce((sum, pid) => sum + secondsOf(readFileSync(`/proc/${pid}/stat`, 'utf8')), 0)
  } catch {
    return undefined
  }
}

/** CPU time that a core has spent on all processes and the kernel, in seconds; undefined without /proc. */
export function coreBusySeconds(core: number): number | undefined {
  try {
    const line = new RegExp(`^cpu${core} (.*)$`, 'm').exec(readFileSync('/proc/stat', 'utf8'))?.[1]
    if (line === undefined) return undefined
    // user nice system idle iowait irq softirq steal
    const ticks = line.split(' ').map(Number)
    return ticks.slice(0, 8).reduce((sum, value, at) => (at === 3 || at === 4 ? sum : sum + value), 0) / ticksPerS
  } catch {
    return undefined
  }
}

/** utime and stime, fields 14 and 15. They are counted from the end of the name, which may hold spaces. */
function secondsOf(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / ticksPerS
}
