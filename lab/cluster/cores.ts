import { execFileSync } from 'node:child_process'

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
