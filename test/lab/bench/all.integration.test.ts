import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { menu } from '../../../brim.ts'
import { projectRoot } from '../../../core/kit/base/version.ts'
import { benchmarks } from '../../../lab/bench/all/benchmarks.ts'
import { brim } from '../../support/brim.ts'
import { captureIo } from '../../support/captured-io.ts'

/** The commands of the menus of benchmarks that have --save. */
async function savedCommands(words: readonly string[], of = menu): Promise<string[]> {
  const found = await Promise.all(
    Object.entries(of.commands).map(async ([name, [, load]]) => {
      const loaded = await load()
      const path = [...words, name.split(' ')[0]!]
      if ('menu' in loaded) return savedCommands(path, loaded.menu)
      return loaded.command.flags.some((flag) => flag.name === 'save') ? [path.join(' ')] : []
    }),
  )
  return found.flat()
}

describe('brim bench all', () => {
  it('runs every command that saves results', async () => {
    const listed = benchmarks.map(({ words }) => words.join(' '))
    expect(['bench all', ...listed].sort()).toEqual((await savedCommands([])).sort())
  })

  it('has their times on the page of results', () => {
    const page = readFileSync(new URL('docs/results/README.md', projectRoot), 'utf8').split('## How long they take')[1]
    const rows = page
      ?.split('\n')
      .flatMap((line) => /^\| ([a-z][a-z-]*) \|/.exec(line)?.[1] ?? [])
      .filter((name) => name !== 'benchmark')
    expect(rows?.slice(0, benchmarks.length)).toEqual(benchmarks.map(({ name }) => name))
  })

  it('rejects a benchmark that does not exist', async () => {
    const command = brim(['bench', 'all', '--only', 'hat,nothing'], captureIo().io)
    await expect(command).rejects.toMatchObject({ code: 'USAGE', message: expect.stringContaining('nothing') })
  })

  it('runs the chosen ones in processes of their own, with an estimate', { timeout: 120_000 }, async () => {
    const { io, out, err } = captureIo()
    await brim(['bench', 'all', '--quick', '--only', 'validation', '--json'], io)
    expect(JSON.parse(out())).toEqual({ validation: 'measured' })
    expect(err()).toContain('1 of 1: brim simulate validate --quick (about 3 s of 3 s)')
    expect(err()).toContain('validationErrorHatTtft')
  })

  it('ends with the benchmark that runs when it is interrupted', async () => {
    const stop = new AbortController()
    const captured = captureIo({ signal: stop.signal })
    const io = {
      ...captured.io,
      err(line: string) {
        captured.io.err(line)
        if (/repetition 1/.test(line)) stop.abort(new Error('interrupted'))
      },
    }
    const command = brim(['bench', 'all', '--quick', '--only', 'engine,validation', '--despite-load'], io)
    await expect(command).rejects.toThrow('interrupted')
    expect(captured.err()).not.toContain('simulate validate')
  })
})
