import type { Machine } from '../../core/policy/machine.ts'
import { decodeLine, encodeLine, type RecordedLine } from '../../core/policy/recording.ts'

/** Makes a machine from the settings that its recording begins with. */
export type CreateMachine = (settings: unknown) => Machine<unknown, unknown>

/** An input on which today's code decides otherwise than the code that was recorded. */
export interface ReplayDifference {
  /** Of the recording, from 1. */
  readonly line: number
  readonly machine: string
  readonly input: unknown
  readonly recorded: readonly unknown[]
  readonly replayed: readonly unknown[]
}

export interface Replayed {
  readonly machines: number
  readonly inputs: number
  readonly differences: readonly ReplayDifference[]
}

/**
 * Gives the recorded inputs to machines of today's code. A machine is followed up to its first difference: what comes later
 * follows from that.
 * @throws Error where a line is of no machine that is known
 */
export function replay(lines: Iterable<string>, machines: Readonly<Record<string, CreateMachine>>): Replayed {
  const running = new Map<number, { readonly name: string; readonly machine: Machine<unknown, unknown> }>()
  const ended = new Set<number>()
  const differences: ReplayDifference[] = []
  let count = 0
  let inputs = 0
  let at = 0
  for (const text of lines) {
    at += 1
    if (text === '') continue
    const line = decodeLine(text) as RecordedLine
    if ('machine' in line) {
      const create = machines[line.machine]
      if (!create) throw new Error(`line ${at}: no machine is called ${line.machine}`)
      running.set(line.id, { name: line.machine, machine: create(line.settings) })
      count += 1
      continue
    }
    if (ended.has(line.id)) continue
    const found = running.get(line.id)
    if (!found) throw new Error(`line ${at}: machine ${line.id} has not begun`)
    inputs += 1
    const { input, actions: recorded } = line
    const replayed = found.machine.handle(input, line.atMs)
    if (encodeLine(replayed) === encodeLine(recorded)) continue
    ended.add(line.id)
    differences.push({ line: at, machine: found.name, input, recorded, replayed })
  }
  return { machines: count, inputs, differences }
}
