import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Menu } from '../../../core/cli/command.ts'
import { execute } from '../../../core/cli/execute.ts'
import type { Bench } from '../../../lab/frame/bench.ts'
import { benchCommand } from '../../../lab/frame/command.ts'
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

const menu: Menu = { examples: [], commands: { adding: ['adds', async () => ({ command: benchCommand(adding) })] } }
const bench = (argv: readonly string[], signal?: AbortSignal) => {
  const captured = captureIo(signal ? { signal } : {})
  return { ...captured, done: execute(menu, argv, captured.io) }
}

describe('a benchmark', () => {
  it('prints one document with --json', async () => {
    const { done, out, err } = bench(['adding', '--quick', '--json'])
    await done
    const document = JSON.parse(out())
    expect(Object.keys(document)).toEqual(['bench', 'conditions', 'summary', 'runs'])
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
    const failing = benchCommand({ ...adding, report: { ...adding.report, figure } })
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
