import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import type { Machine } from '../../../core/policy/machine.ts'
import { decodeLine, encodeLine, Recording } from '../../../core/policy/recording.ts'
import { machines } from '../../../lab/replay/machines.ts'
import { type CreateMachine, replay } from '../../../lab/replay/replay.ts'
import { command } from '../../../lab/simulate/commands/replay.ts'
import { captureIo } from '../../support/captured-io.ts'
import { tempDir } from '../../support/temp-dir.ts'

type Input = { readonly kind: 'add'; readonly by: number }
type Action = { readonly kind: 'passed'; readonly sum: number }

/** Tells every sum above a limit. */
class Adder implements Machine<Input, Action> {
  readonly wakeMs = undefined
  readonly #limit: number
  #sum = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  handle({ by }: Input): readonly Action[] {
    this.#sum += by
    return this.#sum > this.#limit ? [{ kind: 'passed', sum: this.#sum }] : []
  }
}

const create: CreateMachine = (settings) => new Adder((settings as { limit: number }).limit) as Machine<unknown, unknown>

function recorded(): string[] {
  const lines: string[] = []
  const recording = new Recording((line) => lines.push(line))
  const first = recording.of('adder', { limit: 3 }, new Adder(3))
  const second = recording.of('adder', { limit: Number.POSITIVE_INFINITY }, new Adder(Number.POSITIVE_INFINITY))
  for (const [at, by] of [2, 2, 5].entries()) for (const each of [first, second]) each.handle({ kind: 'add', by }, at)
  return lines
}

describe('brim simulate replay', () => {
  it('says that a file is no recording', async () => {
    using dir = tempDir()
    const file = join(dir.path, 'notes.jsonl')
    writeFileSync(file, 'garbage\n')
    await expect(command.run({ file }, ['file'], captureIo().io)).rejects.toMatchObject({ code: 'CONFIG_INVALID' })
  })
})

describe('a recording', () => {
  it('is replayed without a difference by the code that was recorded', () => {
    expect(replay(recorded(), { adder: create })).toEqual({ machines: 2, inputs: 6, differences: [] })
  })

  it('shows the first input on which other code decides otherwise, and follows the other machines', () => {
    const lines = recorded()
    const changed: CreateMachine = (settings) => {
      const { limit } = settings as { limit: number }
      return create({ limit: limit === 3 ? 4 : limit })
    }
    const { differences } = replay(lines, { adder: changed })
    expect(differences).toEqual([
      { line: 5, machine: 'adder', input: { kind: 'add', by: 2 }, recorded: [{ kind: 'passed', sum: 4 }], replayed: [] },
    ])
  })

  it('keeps numbers that JSON lacks', () => {
    const value = { a: Number.POSITIVE_INFINITY, b: [Number.NEGATIVE_INFINITY, Number.NaN, 1.5] }
    expect(decodeLine(encodeLine(value))).toEqual(value)
  })

  it('names a machine that is not known', () => {
    expect(() => replay(recorded(), {})).toThrow('line 1: no machine is called adder')
  })
})

const folder = new URL('../../fixtures/recordings/', import.meta.url)

describe('the saved recordings', () => {
  it('are decided by the present code as they were', () => {
    for (const file of readdirSync(folder).filter((name) => name.endsWith('.jsonl.gz'))) {
      const lines = gunzipSync(readFileSync(new URL(file, folder)))
        .toString()
        .split('\n')
      const { differences, machines: count } = replay(lines, machines)
      expect(count, file).toBeGreaterThan(0)
      expect(differences, file).toEqual([])
    }
  })
})
