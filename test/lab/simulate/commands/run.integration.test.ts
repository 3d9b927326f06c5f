import { mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { BrimError } from '../../../../core/kit/base/errors.ts'
import type { ScenarioResult } from '../../../../lab/simulate/run/result.ts'
import { runBrim } from '../../../support/run-brim.ts'

const text = `name: a cloud
cloud: {model: llama3-8b, gpu: h100}
workload:
  requests: 20
  arrivals: {kind: trace, file: own.csv}
  modes: [{mode: cloud}]
`
const trace = `arrival,prompt tokens,output tokens\n${Array.from({ length: 30 }, (_, i) => `${i / 10},100,40`).join('\n')}`

async function scenarioFile(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'brim-scenario-'))
  await writeFile(join(folder, 'own.csv'), trace)
  await writeFile(join(folder, 'cloud.yaml'), text)
  return join(folder, 'cloud.yaml')
}

const simulate = (file: string, options: readonly string[], signal?: AbortSignal) =>
  runBrim(['simulate', 'run', file, ...options], signal ? { signal } : {})

describe('brim simulate run', () => {
  it('prints the figures of a scenario, whose trace lies beside it', async () => {
    const { code, out } = await simulate(await scenarioFile(), [])
    expect(code).toBe(0)
    expect(out).toMatch(/^a cloud: [\d.]+ s on the virtual clock, \d+ events/)
    expect(out).toMatch(/^answered +20$/m)
    expect(out).not.toContain('PARTIAL')
  })

  it('runs a sweep in threads, with the same results as in one', async () => {
    const file = await scenarioFile()
    const sweep = ['--set', 'sweep={cloud.gpu: [a6000, h100], seed: [1, 2]}', '--json']
    const [inOne, inThree] = [
      await simulate(file, [...sweep, '--workers', '1']),
      await simulate(file, [...sweep, '--workers', '3']),
    ]
    expect(inThree.out).toBe(inOne.out)
    const { isComplete, runs } = JSON.parse(inOne.out)
    expect(isComplete).toBe(true)
    expect(runs.map(({ swept }: { swept: object }) => Object.values(swept))).toEqual([
      ['a6000', 1],
      ['a6000', 2],
      ['h100', 1],
      ['h100', 2],
    ])
    const ttft = runs.map((one: { result: { all: { ttftMs: { mean: number } } } }) => one.result.all.ttftMs.mean)
    expect(ttft[0]).toBeGreaterThan(2 * ttft[2])
  })

  it('writes a line for each answer of a sweep, in the order of the runs, with the values of each', async () => {
    const file = await scenarioFile()
    const sweep = ['--set', 'sweep={cloud.gpu: [a6000, h100], seed: [1, 2]}', '--json']
    const records = async (name: string, workers: string) => {
      const path = join(dirname(file), name)
      const { code, out } = await simulate(file, [...sweep, '--records', path, '--workers', workers])
      expect(code).toBe(0)
      return { text: await readFile(path, 'utf8'), runs: JSON.parse(out).runs as { result: ScenarioResult }[] }
    }
    const { text, runs } = await records('answers.csv', '3')
    expect((await records('again.csv', '1')).text).toBe(text)
    expect((await readdir(dirname(file))).filter((name) => name.includes('part'))).toEqual([])
    const [head, ...lines] = text
      .trimEnd()
      .split('\n')
      .map((line) => line.split(','))
    expect(head!.slice(0, 4)).toEqual(['run', 'cloud.gpu', 'seed', 'id'])
    expect(lines.map(([run, gpu, seed]) => [run, gpu, seed])).toEqual(
      [
        ['0', 'a6000', '1'],
        ['1', 'a6000', '2'],
        ['2', 'h100', '1'],
        ['3', 'h100', '2'],
      ].flatMap((run) => Array.from({ length: 20 }, () => run)),
    )
    const ttft = lines.slice(0, 20).map((line) => Number(line[head!.indexOf('ttftMs')]))
    expect(ttft.reduce((sum, ms) => sum + ms, 0) / 20).toBeCloseTo(runs[0]!.result.all.ttftMs.mean, 6)
    const lineOf = (json: string) => JSON.parse(json) as Record<string, unknown>
    const json = (await records('answers.jsonl', '2')).text.trimEnd().split('\n').map(lineOf)
    expect(json.map(({ ttftMs }) => ttftMs)).toEqual(lines.map((line) => Number(line[head!.indexOf('ttftMs')])))
    expect(json[79]).toMatchObject({ run: 3, 'cloud.gpu': 'h100', seed: 2, mode: 'cloud', outputTokens: 40, tokens: 40 })
  })

  it('writes the records of one run without its number, and says where they cannot be written', async () => {
    const file = await scenarioFile()
    const path = join(dirname(file), 'one.jsonl')
    expect((await simulate(file, ['--records', path])).code).toBe(0)
    const [first, ...others] = (await readFile(path, 'utf8')).trimEnd().split('\n')
    expect(others).toHaveLength(19)
    expect(Object.keys(JSON.parse(first!)).slice(0, 3)).toEqual(['id', 'atMs', 'mode'])
    const wrong = await simulate(file, ['--records', join(path, 'in-a-file.csv')])
    expect(wrong).toMatchObject({ code: 1, out: '' })
    expect(wrong.err).toContain('[TARGET_UNWRITABLE]')
  })

  it('names the variant that cannot run, and prints those that have ended before', async () => {
    const sweep = ['--set', 'sweep={cloud.model: [llama3-8b, llama3-70b]}', '--workers']
    for (const workers of ['1', '2']) {
      const { code, err } = await simulate(await scenarioFile(), [...sweep, workers])
      expect(code).toBe(2)
      expect(err).toContain('cloud.model=llama3-70b: llama3-70b does not fit into 1 × h100: cloud.gpus')
    }
    const { out } = await simulate(await scenarioFile(), [...sweep, '1'])
    expect(out).toMatch(/^llama3-8b +cloud +20 /m)
    expect(out).toContain('PARTIAL: 1 of 2 runs have not come to their end')
  })

  it('marks the results of an interrupted run as partial', async () => {
    const stop = new AbortController()
    stop.abort(new BrimError('CANCELED', 'interrupted'))
    const { code, out, err } = await simulate(await scenarioFile(), [], stop.signal)
    expect(code).not.toBe(0)
    expect(out).toContain('PARTIAL: the run was interrupted')
    expect(err).toContain('[CANCELED]')
  })

  it('refuses a wrong field with exit code 2, and a file that is not there', async () => {
    const file = await scenarioFile()
    const wrong = await simulate(file, ['--set', 'cloud.gpu=h1000'])
    expect(wrong).toMatchObject({ code: 2, out: '' })
    expect(wrong.err).toContain('--set cloud.gpu=h1000: cloud.gpu is "h1000", which is no GPU; did you mean "h100"?')
    const missing = await simulate(join(file, 'none.yaml'), [])
    expect(missing).toMatchObject({ code: 2 })
    expect(missing.err).toContain('cannot be read')
  })
})
