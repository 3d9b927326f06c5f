import { readdirSync, readFileSync } from 'node:fs'

/** CPU time of the whole machine so far, in seconds. */
export interface MachineCpuTimes {
  /** Of all processes and of the kernel, and what other virtual machines took. */
  readonly busyS: number
  /** Of this process, of its descendants, and of those of them that have ended. */
  readonly ownS: number
}

/** Unit of CPU time in /proc (USER_HZ), the same on every Linux. */
const ticksPerS = 100

/** Undefined without /proc. */
export function readCpuTimes(): MachineCpuTimes | undefined {
  try {
    const [user = 0, nice = 0, system = 0] = ticksOf('cpu')
    // Interrupts are left out: they belong to no process, and most serve our own connections.
    const steal = ticksOf('cpu')[7] ?? 0
    return { busyS: (user + nice + system + steal) / ticksPerS, ownS: treeSeconds(process.pid) }
  } catch {
    return undefined
  }
}

/** CPU time of these processes so far, in seconds; undefined without /proc. */
export function cpuSeconds(pids: readonly number[]): number | undefined {
  try {
    return pids.reduce((sum, pid) => sum + statOf(pid).ownS, 0)
  } catch {
    return undefined
  }
}

/** CPU time that a core has spent on all processes and the kernel, in seconds; undefined without /proc. */
export function coreBusySeconds(core: number): number | undefined {
  try {
    const ticks = ticksOf(`cpu${core}`)
    return ticks.slice(0, 8).reduce((sum, value, at) => (at === 3 || at === 4 ? sum : sum + value), 0) / ticksPerS
  } catch {
    return undefined
  }
}

/** user nice system idle iowait irq softirq steal, of one core or of all (`cpu`). */
function ticksOf(name: string): number[] {
  const line = new RegExp(`^${name} +(.*)$`, 'm').exec(readFileSync('/proc/stat', 'utf8'))?.[1]
  if (line === undefined) throw new Error(`/proc/stat has no ${name}`)
  return line.split(' ').map(Number)
}

interface ProcessTimes {
  readonly parent: number
  readonly ownS: number
  /** Of its children that have ended, and of theirs. */
  readonly endedS: number
}

function statOf(pid: number): ProcessTimes {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  // Counted from the end of the name, which may hold spaces: state ppid … utime stime cutime cstime, fields 14 to 17.
  const fields = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number)
  const seconds = (at: number) => ((fields[at] ?? 0) + (fields[at + 1] ?? 0)) / ticksPerS
  return { parent: fields[1] ?? 0, ownS: seconds(11), endedS: seconds(13) }
}

/** CPU time of a process and all below it. */
function treeSeconds(root: number): number {
  const children = new Map<number, number[]>()
  const times = new Map<number, ProcessTimes>()
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const pid = Number(name)
    try {
      const found = statOf(pid)
      times.set(pid, found)
      children.set(found.parent, [...(children.get(found.parent) ?? []), pid])
    } catch {
      // It has ended meanwhile; its parent counts it.
    }
  }
  const total = (pid: number): number => {
    const { ownS = 0, endedS = 0 } = times.get(pid) ?? {}
    return (children.get(pid) ?? []).reduce((sum, child) => sum + total(child), ownS + endedS)
  }
  return total(root)
}

/**
 * @param readers CPU time so far of each thing, in seconds
 * @returns a function that gives their use since this call, in cores; null where the system does not report it
 */
export function cpuUseFromNow<Name extends string>(
  readers: Readonly<Record<Name, () => number | undefined>>,
): () => Record<Name, number | null> {
  const read = () => (Object.keys(readers) as Name[]).map((name) => [name, readers[name]()] as const)
  const [fromMs, before] = [performance.now(), read()]
  return () => {
    const seconds = (performance.now() - fromMs) / 1_000
    const used = read().map(([name, to], i) => {
      const from = before[i]![1]
      return [name, from === undefined || to === undefined ? null : (to - from) / seconds]
    })
    return Object.fromEntries(used) as Record<Name, number | null>
  }
}
