import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Menu } from '../../../core/cli/command.ts'
import { execute } from '../../../core/cli/execute.ts'
import { type Bench, benchCommand } from '../../../lab/bench/frame.ts'
import { captureIo } from '../../support/captured-io.ts'
import { tempDir } from '../../support/temp-dir.ts'

/** How fast this process adds: a real measurement, if a dull one. */
const adding: Bench = {
  name: 'adding',
  options: {},
  reach: { sum: { atLeast: 499_500 }, additionsPerMs: { atMost: 1 } },
  async run({ quick, progress }) {
    progress('adding')
    const startMs = performance.now()
    let sum = 0
    for (let i = 0; i < 1000; i++) sum += i
    const additionsPerMs = 1000 / (performance.now() - startMs)
    return { conditions: { numbers: 1000, quick }, summary: { sum, additionsPerMs }, runs: [{ sum }] }
  },
  report: () => ({ svg: '<svg/>', markdown: '# adding' }),
}

const menu: Menu = { examples: [], commands: { adding: ['adds', async () => ({ command: benchCommand(adding) })] } }
const bench = (argv: readonly string[], signal?: AbortSignal) => {
  const captured = captureIo(signal ? { signal } : {})
  return { ...captured, done: execute(menu, argv, captured.io) }
}

describe('a benchmark', () => {
  it('prints one document with --json: bench, conditions, summary, runs', async () => {
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

  it('says otherwise which figures reach their goal and which miss it', async () => {
    const { done, out } = bench(['adding'])
    await done
    expect(out()).toMatch(/sum +499500 +≥ 499500 +reached/)
    expect(out()).toMatch(/additionsPerMs +[\d.]+ +≤ 1 +missed/)
  })

  it('says before it measures that its folder cannot be written', async () => {
    using dir = tempDir()
    const file = join(dir.path, 'file')
    writeFileSync(file, '')
    for (const folder of [file, join(file, 'below')]) {
      const { done, out, err } = bench(['adding', '--out', folder])
      await expect(done).rejects.toMatchObject({ code: 'TARGET_UNWRITABLE', message: expect.stringContaining(folder) })
      expect(out() + err()).toBe('')
    }
  })

  it('makes its folder, and needs to be told which', async () => {
    using dir = tempDir()
    const folder = join(dir.path, 'new', 'below')
    await bench(['adding', '--out', folder]).done
    for (const ending of ['json', 'svg', 'md']) expect(existsSync(join(folder, `adding.${ending}`))).toBe(true)
    await expect(async () => bench(['adding', '--out']).done).rejects.toThrow(/Not enough arguments following: out/)
  })

  it('ends when it is interrupted', async () => {
    const stop = new AbortController()
    stop.abort(new Error('interrupted'))
    await expect(bench(['adding'], stop.signal).done).rejects.toThrow('interrupted')
  })
})
