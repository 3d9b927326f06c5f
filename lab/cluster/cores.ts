import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/** One core for the cloud, another for everything else. */
export interface Cores {
  readonly bridge: number
  readonly others: number
  /** Gives this process back the cores that it had. */
  release(): void
}

/** Before a command: the core that it is held to. */
export const pinnedTo = (core: number): string[] => ['taskset', '-c', String(core)]

/** Keeps one core free for the bridge and holds this process to another; undefined where that cannot be had. */
export function separateCores(): Cores | undefined {
  const allowed = ownCores()
  if (!allowed || allowed.length < 2) return undefined
  const [bridge, others] = allowed as [number, number]
  try {
    hold([others])
  } catch {
    return undefined // not allowed here
  }
  return { bridge, others, release: () => hold(allowed) }
}

/** The cores that this process may run on; undefined where that cannot be asked. */
function ownCores(): number[] | undefined {
  try {
    const said = execFileSync('taskset', ['-c', '-p', String(process.pid)], { stdio: ['ignore', 'pipe', 'ignore'] }).toString()
    const list = /: ([\d,-]+)\s*$/.exec(said)?.[1]
    return list?.split(',').flatMap((range) => {
      const [from, to] = range.split('-').map(Number) as [number, number?]
      return Array.from({ length: (to ?? from) - from + 1 }, (_, i) => from + i)
    })
  } catch {
    return undefined
  }
}

/** All threads of this process. */
function hold(cores: readonly number[]): void {
  execFileSync('taskset', ['-a', '-c', '-p', cores.join(','), String(process.pid)], { stdio: 'ignore' })
}

/** Kernel's ticks of a process's time (USER_HZ), the same on every Linux. */
const ticksPerS = 100

/** Seconds of processor time that these processes have used so far; undefined where /proc does not tell. */
export function cpuSeconds(pids: readonly number[]): number | undefined {
  try {
    return pids.reduce((sum, pid) => sum + secondsOf(readFileSync(`/proc/${pid}/stat`, 'utf8')), 0)
  } catch {
    return undefined
  }
}

/** Of a core, all processes together, kernel included; undefined where /proc does not tell. */
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

/** Fields 14 and 15, utime and stime, counted after the name, which may hold anything. */
function secondsOf(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / ticksPerS
}
