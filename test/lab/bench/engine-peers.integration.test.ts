import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { measurePeers, peerBench } from '../../../lab/bench/engine/peer-bench.ts'
import { tinyLlamaConfig, writeRandomCheckpoint } from '../../../lab/random-checkpoint.ts'
import { expectFigures } from '../../support/bench-result.ts'
import { captureIo } from '../../support/captured-io.ts'
import { toGguf } from '../../support/gguf.ts'
import { pythonWith } from '../../support/python-packages.ts'
import { tempDir } from '../../support/temp-dir.ts'

const python = pythonWith('llama-server')
const pathOf = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url))
const effort = { contexts: [128, 1_024], rounds: 2, tokensPerRound: 4 }

it.skipIf(python === undefined)('measures our engine beside llama.cpp on one GGUF file', { timeout: 120_000 }, async () => {
  using dir = tempDir()
  const [checkpoint, gguf] = [join(dir.path, 'checkpoint'), join(dir.path, 'model.gguf')]
  await writeRandomCheckpoint(checkpoint, {
    config: { ...tinyLlamaConfig, max_position_embeddings: 1_100 },
    dtype: 'F32',
    seed: 1,
  })
  writeFileSync(gguf, await toGguf(checkpoint, { type: 'Q4_0' }))
  const { io } = captureIo()
  const given = { vs: 'llamacpp', gguf, llamaServer: pathOf('llama-server/llama-server') } as const
  const measured = await measurePeers(effort, { quick: true, io, progress: io.err }, given)
  const speeds = measured.runs.flatMap((run) =>
    'samplesMs' in run ? [[run.engine, run.measured, run.context, run.samplesMs]] : [],
  )
  const times = (count: number) => Array.from({ length: count }, () => expect.any(Number))
  expect(speeds).toEqual(
    effort.contexts.flatMap((context) => [
      ['brim', 'prefill', context, times(2)],
      ['brim', 'decode', context, times(8)],
      ['llamacpp', 'prefill', context, times(2)],
      ['llamacpp', 'decode', context, times(2)],
    ]),
  )
  expectFigures(peerBench, peerBench.resultOf(measured))
})

it.each([
  [{}, { code: 'USAGE', message: expect.stringContaining('needs a model') }],
  [{ gguf: '/nowhere.gguf' }, { code: expect.any(String), message: expect.stringContaining('/nowhere.gguf') }],
])('says what is missing with %j', async (given, expected) => {
  const { io } = captureIo()
  const measured = measurePeers(effort, { quick: true, io, progress: io.err }, { llamaServer: 'llama-server', ...given })
  await expect(measured).rejects.toMatchObject(expected)
})

it('says that the server is not installed', async () => {
  using dir = tempDir()
  const gguf = join(dir.path, 'model.gguf')
  writeFileSync(gguf, await toGguf(pathOf('oracle/fixtures/families/qwen3'), { type: 'Q4_0' }))
  const { io } = captureIo()
  const given = { gguf, llamaServer: join(dir.path, 'no-such-program') }
  const measured = measurePeers(effort, { quick: true, io, progress: io.err }, given)
  await expect(measured).rejects.toMatchObject({ code: 'RUNTIME_UNAVAILABLE', hint: expect.stringContaining('--llama-server') })
})
