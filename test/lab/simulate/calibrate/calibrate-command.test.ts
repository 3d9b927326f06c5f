import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { predictedS } from '../../../../lab/simulate/calibrate/measured-steps.ts'
import { readMeasurements } from '../../../../lab/simulate/calibrate/read-measurements.ts'
import { command } from '../../../../lab/simulate/commands/calibrate.ts'
import { wholeModel } from '../../../../lab/simulate/hardware/model-shape.ts'
import { parseHardwareFile } from '../../../../lab/simulate/hardware/presets/hardware-file.ts'
import { gpuNamed, modelNamed } from '../../../../lab/simulate/hardware/presets/presets.ts'
import { runScenario } from '../../../../lab/simulate/run/run-scenario.ts'
import { Scenario } from '../../../../lab/simulate/scenario/scenario.ts'
import { captureIo } from '../../../support/captured-io.ts'

const folder = mkdtempSync(join(tmpdir(), 'brim-calibrate-'))
const csv = join(folder, 'steps.csv')
const shape = modelNamed('brim-demo')
const machine = { ...gpuNamed('a6000'), bytesPerS: 2e10, flopPerS: 5e10, layerS: 1e-4 }
const secondsOf = (rows: number, context: number) =>
  predictedS(machine, { shape, part: wholeModel(shape) }, { streams: 1, rows, context, chosen: 1, seconds: [] })
const lines = [1, 8, 64, 512].flatMap((rows) => [0, 1_000].map((context) => `${rows},${context},${secondsOf(rows, context)}`))
writeFileSync(csv, `rows,context,seconds\n${lines.join('\n')}\n`)

it('writes a machine that a scenario can name', async () => {
  const { io, out: printed } = captureIo()
  const out = join(folder, 'mine.yaml')
  await command.run({ file: csv, model: 'brim-demo', out, name: 'mine' }, ['file'], io)
  expect(printed()).toContain('|error| of the median step ')
  const board = parseHardwareFile(readFileSync(out, 'utf8'), out)
  expect(board.name).toBe('mine')
  const scenario = Scenario.parse({
    name: 'own machine',
    cloud: { model: 'brim-demo', gpu: 'mine.yaml' },
    workload: {
      requests: 1,
      arrivals: { kind: 'burst' },
      promptTokens: 64,
      outputTokens: 8,
      modes: [{ mode: 'cloud', share: 1 }],
    },
  })
  const ttfts: number[] = []
  await runScenario(scenario, { folders: [folder], onRecord: ({ ttftMs }) => ttfts.push(ttftMs) })
  expect(ttfts[0]! / (1_000 * secondsOf(64, 0))).toBeCloseTo(1, 1)
})

it('reads the benchmarks of engine and HAT in this repository', async () => {
  const engine = await readMeasurements('docs/results/engine/engine.json', undefined)
  expect(engine.shape.layers).toBe(8)
  expect(engine.steps.some(({ streams, rows }) => streams === 8 && rows === 1)).toBe(true)
  const hat = await readMeasurements('docs/results/hat/hat.json', undefined)
  expect(hat.part.layers).toBe(11)
  expect(hat.steps.reduce((sum, { seconds }) => sum + seconds.length, 0)).toBeGreaterThan(5_000)
})

it('reads the profile of a device', async () => {
  const file = join(folder, 'profile.json')
  const models = [
    {
      model: 'brim-demo-slm-deep',
      ttftMs: 12,
      tpotMs: 2,
      parallel: [
        [1, 1],
        [4, 2],
      ],
    },
  ]
  writeFileSync(file, JSON.stringify({ promptTokens: 64, answerTokens: 128, models }))
  const { steps, shape } = await readMeasurements(file, undefined)
  expect(shape.name).toBe('brim-demo-slm-deep')
  expect(steps).toEqual([
    { streams: 1, rows: 64, context: 0, chosen: 1, seconds: [0.012] },
    { streams: 1, rows: 1, context: 128, chosen: 1, seconds: [0.002] },
    { streams: 4, rows: 1, context: 128, chosen: 4, seconds: [0.004] },
  ])
  await expect(readMeasurements(file, 'bloom-560m')).rejects.toThrow(
    'has no model "bloom-560m"; its models are brim-demo-slm-deep',
  )
})

it.each([
  ['rows,context\n1,0', 'has no column "seconds"'],
  ['rows,context,seconds\n1,0,0.1\n2,x,0.1', 'line 3: context: '],
  ['rows,context,seconds', 'holds no measured steps'],
  ['{"bench":"queue"}', 'is neither a document of "brim bench engine"'],
  ['{"bench":"engine"}', 'is not a document of brim bench engine: conditions: '],
  ['{', 'is not JSON'],
])('says what is wrong with %j', async (text, problem) => {
  const file = join(folder, 'wrong')
  writeFileSync(file, text)
  await expect(readMeasurements(file, 'brim-demo')).rejects.toThrow(problem)
})

it('asks which model was measured', async () => {
  await expect(readMeasurements(csv, undefined)).rejects.toThrow('--model is missing')
  await expect(readMeasurements(join(folder, 'none.csv'), 'brim-demo')).rejects.toThrow('none.csv cannot be read')
})

it('names each wrong field of a machine', () => {
  expect(() => parseHardwareFile('name: a\nflopPerS: fast', 'a.yaml')).toThrow(
    /a\.yaml describes no machine: memoryBytes .*flopPerS /,
  )
  expect(() => parseHardwareFile('', 'a.yaml')).toThrow('a.yaml describes no machine')
})
