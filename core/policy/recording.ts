import type { Machine } from './machine.ts'

/** A line of a recording: a machine begins with its settings, then takes its inputs. */
export type RecordedLine =
  | { readonly id: number; readonly machine: string; readonly settings: unknown }
  | { readonly id: number; readonly atMs: number; readonly input: unknown; readonly actions: readonly unknown[] }

/** What the machines of one process take and decide, written line by line (JSON), to be replayed against other code. */
export class Recording {
  readonly #write: (line: string) => void
  #machines = 0

  constructor(write: (line: string) => void) {
    this.#write = write
  }

  /** @returns a machine that does the same as this one, which `create` of the replay makes again from these settings */
  of<Input, Action>(name: string, settings: unknown, machine: Machine<Input, Action>): Machine<Input, Action> {
    this.#machines += 1
    const id = this.#machines
    this.#write(encodeLine({ id, machine: name, settings }))
    return {
      get wakeMs() {
        return machine.wakeMs
      },
      handle: (input, nowMs) => {
        // Written before it is handled: a machine may keep what it is given.
        const before = encodeLine(input)
        const actions = machine.handle(input, nowMs)
        this.#write(`{"id":${id},"atMs":${nowMs},"input":${before},"actions":${encodeLine(actions)}}`)
        return actions
      },
    }
  }
}

const numbers = new Map([Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN].map((value) => [`${value}`, value]))

/** JSON that keeps the numbers that JSON lacks. */
export const encodeLine = (value: unknown): string =>
  JSON.stringify(value, (_, each: unknown) =>
    typeof each === 'number' && !Number.isFinite(each) ? { $number: String(each) } : each,
  )

export const decodeLine = (line: string): unknown =>
  JSON.parse(line, (_, each: unknown) =>
    typeof each === 'object' && each !== null && '$number' in each ? numbers.get(String(each.$number)) : each,
  )
