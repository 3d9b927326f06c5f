import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Menu } from '../../../core/kit/cli/command.ts'
import { execute } from '../../../core/kit/cli/execute.ts'
import type { Bench, BenchReport } from '../../../lab/frame/bench.ts'
import { benchCommand } from '../../../lab/frame/command.ts'
import { benchPage } from '../../../lab/frame/page.ts'
import { savedDocument } from '../../../lab/frame/results.ts'
import { captureIo } from '../../support/captured-io.ts'
import { tempDir } from '../../support/temp-dir.ts'

/** A small benchmark: it measures how fast this process adds. */
const adding: Bench = {
  name: 'adding',
  options: {},
  examples: [],
  goals: { sum: { min: 499_500 }, additionsPerMs: { max: 1 } },
  async run({ quick, progress }) {
    progress('adding')
    const startMs = performance.now()
    let sum = 0
    for (let i = 0; i < 1000; i++) sum += i
    const additionsPerMs = 1000 / (performance.now() - startMs)
    return { conditions: { numbers: 1000, quick }, summary: { sum, additionsPerMs }, runs: [{ sum }] }
  },
  report: {
    title: 'Adding',
    contents: 'every sum',
    figure: () => ({ title: 'Sums', subtitle: '', columns: 1, panels: [] }),
    figureText: 'Sums',
    tables: ({ runs }) => [
      { title: 'Every sum', head: ['sum'], rows: runs.map((run) => [String((run as { sum: number }).sum)]) },
    ],
    conditions: ({ conditions }) => `Numbers below ${conditions.numbers}.`,
  },
}

/** CPU times of a machine on which other processes use a number of cores, and this one none. */
function machineWith(foreignCores: (atS: number) => number) {
  let [nowMs, busyS, ownS] = [0, 0, 0]
  const sleep = async (ms: number) => {
    busyS += (ms / 1_000) * (foreignCores(nowMs / 1_000) + 1)
    ownS += ms / 1_000
    nowMs += ms
  }
  return { cpuTimes: () => ({ busyS, ownS }), clock: { nowMs: () => nowMs, sleep } }
}

const unread = { ...machineWith(() => 0), cpuTimes: () => undefined }
const menu: Menu = { examples: [], commands: { adding: ['adds', async () => ({ command: benchCommand(adding, unread) })] } }
const bench = (argv: readonly string[], signal?: AbortSignal) => {
  const captured = captureIo(signal ? { signal } : {})
  return { ...captured, done: execute(menu, argv, captured.io) }
}

describe('a benchmark', () => {
  it('prints one document with --json', async () => {
    const { done, out, err } = bench(['adding', '--quick', '--json'])
    await done
    const document = JSON.parse(out())
    expect(Object.keys(document)).toEqual(['bench', 'conditions', 'summary', 'runs', 'repetitions'])
    expect(document).toMatchObject({ bench: 'adding', summary: { sum: 499_500 }, runs: [{ sum: 499_500 }] })
    expect(document.conditions).toMatchObject({
      command: 'brim bench adding --quick',
      numbers: 1000,
      quick: true,
      node: process.versions.node,
    })
    expect(document.conditions.startedAt).toMatch(/^\d{4}-\d\d-\d\dT.*Z$/)
    expect(err()).toContain('adding')
  })

  it('prints its tables, and which figures reach or miss their goals', async () => {
    const { done, out } = bench(['adding'])
    await done
    expect(out()).toMatch(/Every sum\n\n +sum\n─+\n499500/)
    expect(out()).toMatch(/sum +499500 +≥ 499500 +reached/)
    expect(out()).toMatch(/additionsPerMs +[\d.]+ +≤ 1 +missed/)
  })

  it('keeps what other commands read where it has too many runs, and shows the same page of it', () => {
    const report: BenchReport = { ...adding.report, findings: () => 'The sum is right.', keptRuns: () => [] }
    const document = { bench: 'adding', conditions: { numbers: 9 }, summary: { sum: 7 }, runs: [{ sum: 7 }] }
    const saved = savedDocument(document, report)
    expect(saved.runs).toEqual([])
    const page = benchPage(saved, report, {})
    expect(page).toContain('with `--out FOLDER` in place of `--save` writes every sum.')
    const below = (text: string) => text.slice(text.indexOf('!['))
    expect(below(page)).toBe(below(benchPage(document, report, {})))
    expect(savedDocument(saved, report)).toBe(saved)
    expect(savedDocument(document, adding.report)).toBe(document)
  })

  it('fails before it measures if its folder cannot be written', async () => {
    using dir = tempDir()
    const file = join(dir.path, 'file')
    writeFileSync(file, '')
    for (const folder of [file, join(file, 'below')]) {
      const { done, out, err } = bench(['adding', '--out', folder])
      await expect(done).rejects.toMatchObject({ code: 'TARGET_UNWRITABLE', message: expect.stringContaining(folder) })
      expect(out() + err()).toBe('')
    }
  })

  it('creates the folder given with --out', async () => {
    using dir = tempDir()
    const folder = join(dir.path, 'new', 'below')
    await bench(['adding', '--out', folder]).done
    for (const ending of ['json', 'svg', 'md']) expect(existsSync(join(folder, `adding.${ending}`))).toBe(true)
    await expect(async () => bench(['adding', '--out']).done).rejects.toThrow(/Not enough arguments following: out/)
  })

  it('writes a page from a saved document without measuring', async () => {
    using dir = tempDir()
    await bench(['adding', '--out', dir.path]).done
    const file = join(dir.path, 'adding.json')
    const document = JSON.parse(readFileSync(file, 'utf8'))
    writeFileSync(file, JSON.stringify({ ...document, runs: [{ sum: 7 }] }))
    const { done, err } = bench(['adding', '--from', file, '--out', dir.path])
    await done
    expect(err()).not.toContain('adding\n')
    const page = readFileSync(join(dir.path, 'adding.md'), 'utf8')
    expect(page).toContain(`Measured by \`brim bench adding --save\` on ${document.conditions.startedAt}`)
    expect(page).toContain('## Every sum\n\n| sum |\n| --- |\n| 7 |\n')
    expect(page).toContain('| sum | 499500 | ≥ 499500 | reached |')
  })

  it.each([
    ['no JSON', 'sum', 'is not a benchmark document'],
    ['another benchmark', JSON.stringify({ bench: 'other', conditions: {}, summary: {}, runs: [] }), 'of another benchmark'],
    ['no file', undefined, 'cannot be read'],
  ])('rejects a saved document that is %s', async (_, text, message) => {
    using dir = tempDir()
    const file = join(dir.path, 'adding.json')
    if (text !== undefined) writeFileSync(file, text)
    const error = { code: 'REQUEST_INVALID', message: expect.stringContaining(message) }
    await expect(bench(['adding', '--from', file]).done).rejects.toMatchObject(error)
  })

  it('reports the failure of its report as it is, not as an unwritable folder', async () => {
    using dir = tempDir()
    const figure = () => {
      throw new Error('no figure')
    }
    const failing = benchCommand({ ...adding, report: { ...adding.report, figure } }, unread)
    const failingMenu: Menu = { examples: [], commands: { failing: ['fails', async () => ({ command: failing })] } }
    await expect(execute(failingMenu, ['failing', '--out', dir.path], captureIo().io)).rejects.toThrow('no figure')
    expect(existsSync(join(dir.path, 'adding.json'))).toBe(false)
  })

  it('stops when it is interrupted', async () => {
    const stop = new AbortController()
    stop.abort(new Error('interrupted'))
    await expect(bench(['adding'], stop.signal).done).rejects.toThrow('interrupted')
  })
})

describe('a benchmark beside other processes', () => {
  /** Runs for 60 s of the machine's clock, and notes how far it came. */
  const onMachine = (machine: ReturnType<typeof machineWith>, options: readonly string[] = [], more: Partial<Bench> = {}) => {
    let ranS = 0
    const slow: Bench = {
      ...adding,
      ...more,
      async run(context) {
        for (; ranS < 60; ranS += 10) {
          context.progress(`${ranS} s`)
          await machine.clock.sleep(10_000)
        }
        return adding.run(context, {})
      },
    }
    const slowMenu: Menu = { examples: [], commands: { slow: ['adds', async () => ({ command: benchCommand(slow, machine) })] } }
    const captured = captureIo()
    return { ...captured, done: execute(slowMenu, ['slow', ...options], captured.io), ranS: () => ranS }
  }

  it('records what these used', async () => {
    const { done, out } = onMachine(
      machineWith((atS) => (atS < 2 ? 0.1 : 0.05)),
      ['--json'],
    )
    await done
    const { foreignLoad } = JSON.parse(out()).conditions
    for (const [name, value] of Object.entries({ before: 0.1, mean: 0.05, max: 0.05 }))
      expect(foreignLoad[name]).toBeCloseTo(value)
  })

  it('does not start while these are busy', async () => {
    const { done, out, ranS } = onMachine(machineWith(() => 0.8))
    await expect(done).rejects.toMatchObject({
      code: 'MACHINE_BUSY',
      message: expect.stringContaining('0.80 cores before the run (limit 0.15)'),
      hint: expect.stringContaining('--despite-load'),
    })
    expect([out(), ranS()]).toEqual(['', 0])
  })

  it('stops as soon as ten seconds of its run are disturbed, and saves nothing', async () => {
    using dir = tempDir()
    const machine = machineWith((atS) => (atS >= 22 && atS < 32 ? 0.9 : 0))
    const { done, out, ranS } = onMachine(machine, ['--out', dir.path])
    const message = expect.stringContaining('0.90 cores at most (limit 0.5)')
    await expect(done).rejects.toMatchObject({ code: 'MACHINE_BUSY', message })
    expect([out(), ranS(), existsSync(join(dir.path, 'adding.json'))]).toEqual(['', 30, false])
  })

  it('has no figures if these used a little all the time', async () => {
    const { done } = onMachine(machineWith(() => 0.12))
    const message = expect.stringContaining('0.12 cores on average (limit 0.1)')
    await expect(done).rejects.toMatchObject({ code: 'MACHINE_BUSY', message })
  })

  it('prints its figures with --despite-load, which does not go with --save', async () => {
    const { done, out } = onMachine(
      machineWith(() => 0.8),
      ['--despite-load'],
    )
    await done
    expect(out()).toContain('499500')
    await expect(
      async () =>
        onMachine(
          machineWith(() => 0),
          ['--despite-load', '--save'],
        ).done,
    ).rejects.toMatchObject({ code: 'USAGE' })
  })

  it('is not disturbed if its figures do not depend on time', async () => {
    const { done, out } = onMachine(
      machineWith(() => 1.5),
      ['--json'],
      { isTimeless: true },
    )
    await done
    expect(JSON.parse(out()).conditions.foreignLoad.mean).toBeCloseTo(1.5)
  })
})

describe('a quick run', () => {
  it('measures several times, and marks figures that differ from one repetition to the next', async () => {
    let run = 0
    const noisy: Bench = {
      ...adding,
      goals: { ratio: { max: 1.15 }, steady: { min: 2 }, never: { min: 1 } },
      async run() {
        const ratio = [0.82, 1.3, 1.88][run++]!
        return { conditions: {}, summary: { ratio, steady: 3 + run / 100, never: null, count: run }, runs: [{ sum: run }] }
      },
    }
    const noisyMenu: Menu = {
      examples: [],
      commands: { noisy: ['adds', async () => ({ command: benchCommand(noisy, unread) })] },
    }
    const { io, out } = captureIo()
    await execute(noisyMenu, ['noisy', '--quick'], io)
    expect(run).toBe(3)
    expect(out()).toMatch(/ratio +1\.3 +0\.82 to 1\.88 +≤ 1\.15 +undecided, wide range/)
    expect(out()).toMatch(/steady +3\.02 +3\.01 to 3\.03 +≥ 2 +reached\n/)
    expect(out()).toMatch(/count +2 +1 to 3 +wide range/)
  })
})
