import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildBundle } from '../../core/model/bundle/build.ts'
import { openRuntime } from '../../core/model/engine/capi.ts'
import { openModel } from '../../core/model/engine/open-model.ts'
import { referenceAnswer } from '../../core/model/engine/reference.ts'
import type { Runtime } from '../../core/model/engine/runtime.ts'
import { greedy } from '../../core/model/engine/sampler.ts'
import { toGguf } from '../support/gguf.ts'
import { startLlamaServer } from '../support/llama-server.ts'
import { postJson } from '../support/post-json.ts'
import { pythonWith } from '../support/python-packages.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'

const python = pythonWith('llama-server')
const key = 'a-key-of-the-server'
const fixture = (name: string) => fileURLToPath(new URL(`fixtures/families/${name}`, import.meta.url))
const families = ['qwen3', 'qwen3-yarn', 'mistral', 'phi3', 'smollm3', 'granite', 'olmo2', 'gemma3'] as const

/**
 * The layers of the fixtures differ from those that llama.cpp has in its code, so that tokens are compared with it, not with
 * the oracle's.
 */
describe.skipIf(python === undefined)('a GGUF file of a family, in llama.cpp and as a bundle', () => {
  const dir = shared(tempDir)
  let runtime: Runtime
  beforeAll(async () => {
    runtime = await openRuntime()
  })
  afterAll(async () => {
    await runtime?.close()
  })

  it.each(families)('%s continues prompts with the same tokens', async (name) => {
    const file = join(dir.path, `${name}.gguf`)
    writeFileSync(file, await toGguf(fixture(name)))
    const out = join(dir.path, name)
    const { manifest } = await buildBundle({ checkpoint: file, out, format: 'fp32' })
    const model = await openModel(runtime, out, { parts: 'chain', threads: 1 })
    await using server = await startLlamaServer(python!, file, key)
    let compared = 0
    for (const length of [3, 17, 60]) {
      const prompt = Array.from({ length }, (_, i) => 3 + ((i * 37 + length) % (manifest.dims.vocab - 3)))
      const response = await postJson(
        `${server.url}/completion`,
        { prompt, n_predict: 24, temperature: 0, samplers: ['temperature'], return_tokens: true },
        { authorization: `Bearer ${key}` },
      )
      expect(response.status).toBe(200)
      const { tokens } = (await response.json()) as { tokens: number[] }
      // The server may end at a token that the vocabulary of the fixtures does not mean as an end.
      const own = await referenceAnswer(model.chain({ cuts: 'full' }), prompt, greedy, 24, [])
      expect(own.slice(0, tokens.length)).toEqual(tokens)
      compared += tokens.length
    }
    expect(compared).toBeGreaterThan(24)
    await model.release()
  })
})
