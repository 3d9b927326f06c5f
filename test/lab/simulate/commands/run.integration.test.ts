import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { run } from '../../../../brim.ts'
import { BrimError } from '../../../../core/base/errors.ts'
import { captureIo } from '../../../support/captured-io.ts'

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

async function simulate(file: string, options: readonly string[], signal?: AbortSignal) {
  const { io, out, err } = captureIo(signal ? { signal } : {})
  const code = await run(['simulate', 'run', file, ...options], io)
  return { code, out: out(), err: err() }
}

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
