import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildBundle } from '../../core/model/bundle/build.ts'
import { openRuntime } from '../../core/model/engine/capi.ts'
import { openModel } from '../../core/model/engine/open-model.ts'
import { referenceAnswer } from '../../core/model/engine/reference.ts'
import type { Runtime } from '../../core/model/engine/runtime.ts'
import { greedy } from '../../core/model/engine/sampler.ts'
import { loadTokenizer } from '../../core/model/text/tokenizer.ts'
import { toGguf } from '../support/gguf.ts'
import { type LlamaServer, startLlamaServer } from '../support/llama-server.ts'
import { postJson } from '../support/post-json.ts'
import { pythonWith } from '../support/python-packages.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'
import { fixtureDir, readOracle } from './fixtures.ts'

const python = pythonWith('llama-server')
const key = 'a-key-of-the-server'
const texts = Object.values(
  JSON.parse(readFileSync(join(fixtureDir('llama'), '../strings.json'), 'utf8')) as Record<string, string>,
)

// Quantised files are not compared: llama.cpp rounds activations to 8 bits for them, which changes the tokens of random models.
describe.skipIf(python === undefined)('a GGUF file, in llama.cpp and as a bundle', () => {
  const dir = shared(tempDir)
  let runtime: Runtime
  beforeAll(async () => {
    runtime = await openRuntime()
  })
  afterAll(async () => {
    await runtime?.close()
  })

  describe.each([
    ['llama', 'F32'],
    ['llama-mha', 'F16'],
    ['qwen2', 'F32'],
  ] as const)('%s in %s', (name, type) => {
    let server: LlamaServer
    let bundle: string
    beforeAll(async () => {
      const file = join(dir.path, `${name}-${type}.gguf`)
      writeFileSync(file, await toGguf(fixtureDir(name), { type }))
      bundle = join(dir.path, `${name}-${type}`)
      await buildBundle({ checkpoint: file, out: bundle, format: 'fp32' })
      server = await startLlamaServer(python!, file, key)
    })
    afterAll(() => server?.[Symbol.asyncDispose]())

    async function post<T>(path: string, body: object): Promise<T> {
      const response = await postJson(`${server.url}${path}`, body, { authorization: `Bearer ${key}` })
      expect(response.status).toBe(200)
      return (await response.json()) as T
    }

    it('has the same ids for a text', async () => {
      const tokenizer = await loadTokenizer(join(bundle, 'tokenizer'))
      // llama.cpp does not normalise the texts of Qwen.
      for (const content of texts.map((text) => text.normalize('NFC'))) {
        const { tokens } = await post<{ tokens: number[] }>('/tokenize', { content, add_special: true, parse_special: true })
        expect(tokenizer.encode(content), JSON.stringify(content)).toEqual(tokens)
      }
    })

    it('continues a prompt with the same tokens', async () => {
      const chain = (await openModel(runtime, bundle, { parts: 'chain', threads: 1 })).chain({ cuts: 'full' })
      for (const { promptIds, continuation } of readOracle(name).cases.slice(0, 4)) {
        const options = { n_predict: 32, temperature: 0, samplers: ['temperature'], return_tokens: true, cache_prompt: false }
        const { tokens } = await post<{ tokens: number[] }>('/completion', { prompt: promptIds, ...options })
        const own = await referenceAnswer(chain, promptIds, greedy, 32, [])
        expect(own).toEqual(tokens)
        if (type === 'F32') expect(own).toEqual(continuation.slice(0, 32))
      }
    })
  })
})
