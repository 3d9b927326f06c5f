import { execFileSync } from 'node:child_process'

/** One core for the bridge, another for everything else. Disposing lets this process use its earlier cores again. */
export interface Cores extends Disposable {
  readonly bridge: number
  readonly others: number
}

/** Words before a command that pin it to a core. */
export const pinnedTo = (core: number): string[] => ['taskset', '-c', String(core)]

/** Leaves one core to the bridge and pins this process to another; undefined, which `progress` says, where that is impossible. */
export function separateCores(progress: (line: string) => void): Cores | undefined {
  const allowed = ownCores() ?? []
  const [bridge, others] = allowed
  try {
    if (bridge !== undefined && others !== undefined) {
      pin([others])
      return { bridge, others, [Symbol.dispose]: () => pin(allowed) }
    }
  } catch {
    // Nothing is pinned.
  }
  progress('taskset or a second core is missing: processes are not pinned to cores')
  return undefined
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
