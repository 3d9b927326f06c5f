import { join } from 'node:path'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildBundle } from '../../../core/model/bundle/build.ts'
import { fixtureDir } from '../../oracle/fixtures.ts'
import { startAgentWorld } from '../../support/agent-world.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { postJson } from '../../support/post-json.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const dir = tempDir()
const bundle = join(dir.path, 'embed')
const world = shared(startAgentWorld)
beforeAll(() =>
  buildBundle({ checkpoint: fixtureDir('llama'), out: bundle, embedding: 'mean', format: 'fp32', name: 'tiny-embed' }),
)
const agent = shared(() => world.startAgent({ id: 'embedding', embedding: bundle }))
const bridge = shared(() => startTestBridge({ bundle: world.bundle, stateDir: join(dir.path, 'bridge'), embedding: bundle }))
let urls: readonly string[]
beforeAll(async () => {
  urls = [agent.apiUrl, bridge.httpUrl]
})
afterAll(() => dir[Symbol.dispose]())

const clientOf = (at: number) => new OpenAI({ baseURL: `${urls[at]}/v1`, apiKey: 'none', maxRetries: 0 })
const cosine = (a: readonly number[], b: readonly number[]) => a.reduce((sum, value, i) => sum + value * b[i]!, 0)

const post = (url: string, body: object) => postJson(`${url}/v1/embeddings`, { model: 'brim', ...body })

describe.each([
  ['agent', 0],
  ['bridge', 1],
])('embeddings: %s', (_, at) => {
  it('come as base64 and as numbers, of texts and of token ids', async () => {
    const openai = clientOf(at)
    const input = ['Where does the river rise?', 'The old mill', 'Where does the river rise?']
    // The client asks for base64 unless it is told otherwise, and reads it.
    const { data, usage, model } = await openai.embeddings.create({ model: 'tiny-embed', input })
    expect(model).toBe('tiny-embed')
    expect(data.map(({ index }) => index)).toEqual([0, 1, 2])
    expect(data.map(({ embedding }) => embedding.length)).toEqual([64, 64, 64])
    expect(cosine(data[0]!.embedding, data[2]!.embedding)).toBeCloseTo(1, 4)
    expect(cosine(data[0]!.embedding, data[1]!.embedding)).toBeLessThan(0.999)
    expect(usage.prompt_tokens).toBeGreaterThan(6)
    const numbers = await openai.embeddings.create({ model: 'brim', input: input[1]!, encoding_format: 'float' })
    expect(cosine(numbers.data[0]!.embedding, data[1]!.embedding)).toBeCloseTo(1, 4)
    const ids = [5, 6, 7, 8]
    const [alone] = (await openai.embeddings.create({ model: 'brim', input: ids })).data
    const both = await openai.embeddings.create({ model: 'brim', input: [ids, [9]] })
    expect(both.usage.total_tokens).toBe(5)
    expect(cosine(alone!.embedding, both.data[0]!.embedding)).toBeCloseTo(1, 4)
  })

  it('of fewer dimensions are their beginning, of length 1', async () => {
    const openai = clientOf(at)
    const [whole] = (await openai.embeddings.create({ model: 'brim', input: 'The old mill' })).data
    const [short] = (await openai.embeddings.create({ model: 'brim', input: 'The old mill', dimensions: 16 })).data
    expect(short!.embedding).toHaveLength(16)
    expect(Math.hypot(...short!.embedding)).toBeCloseTo(1, 5)
    expect(cosine(short!.embedding, whole!.embedding) / Math.hypot(...whole!.embedding.slice(0, 16))).toBeCloseTo(1, 4)
  })

  it('of a text as long as the context are made, and of a longer one refused', async () => {
    const openai = clientOf(at)
    const [longest] = (await openai.embeddings.create({ model: 'brim', input: Array<number>(512).fill(7) })).data
    expect(longest!.embedding.every(Number.isFinite)).toBe(true)
    const longer = openai.embeddings.create({ model: 'brim', input: Array<number>(513).fill(7) })
    await expect(longer).rejects.toMatchObject({ status: 400, code: 'context_length_exceeded' })
  })

  it.each([
    ['no text', { input: '' }, 'input'],
    ['no texts', { input: [] }, 'input'],
    ['an empty text', { input: ['a', ''] }, 'input'],
    ['no token', { input: [[]] }, 'input'],
    ['a mixture', { input: [1, 'a'] }, 'input'],
    ['an unknown token', { input: [99_999] }, 'input'],
    ['a negative token', { input: [[5], [-1]] }, 'input'],
    ['a number', { input: 7 }, 'input'],
    ['too many texts', { input: Array(257).fill('a') }, 'input'],
    ['too many dimensions', { input: 'a', dimensions: 65 }, 'dimensions'],
    ['no dimension', { input: 'a', dimensions: 0 }, 'dimensions'],
    ['another format', { input: 'a', encoding_format: 'int8' }, 'encoding_format'],
    ['another model', { input: 'a', model: 'other' }, 'model'],
  ])('refuse %s', async (_name, body, field) => {
    const response = await post(urls[at]!, body)
    const { error } = (await response.json()) as { error: { param: string } }
    expect(response.status).toBe(field === 'model' ? 404 : 400)
    expect(error.param).toContain(field)
  })

  it('their model is listed', async () => {
    const ids = []
    for await (const { id } of clientOf(at).models.list()) ids.push(id)
    expect(ids).toContain('tiny-embed')
  })

  it('many requests at once each get their own', async () => {
    const openai = clientOf(at)
    const texts = Array.from({ length: 40 }, (_, n) => `Text number ${n}`)
    const alone = await openai.embeddings.create({ model: 'brim', input: texts })
    const each = await Promise.all(texts.map((input) => openai.embeddings.create({ model: 'brim', input })))
    for (const [n, { data }] of each.entries()) expect(cosine(data[0]!.embedding, alone.data[n]!.embedding)).toBeCloseTo(1, 4)
  })
})

it('a device without a model for answers embeds texts, and lists its model', async () => {
  const only = await world.startAgent({ id: 'only', bundle: undefined, embedding: bundle })
  expect((await post(only.apiUrl, { input: 'The old mill' })).status).toBe(200)
  const models = (await (await fetch(`${only.apiUrl}/v1/models`)).json()) as { data: { id: string }[] }
  expect(models.data.map(({ id }) => id)).toEqual(['tiny-embed'])
})

it('without a model for embeddings, the error says how to get one', async () => {
  for (const url of [world.agent.apiUrl, world.bridge.httpUrl]) {
    const response = await post(url, { input: 'a' })
    expect(response.status).toBe(404)
    expect(await response.text()).toContain('--embedding')
  }
})

it('a bundle that answers embeds nothing, and one that embeds answers nothing', async () => {
  const refused = (embedding: string, bundle?: string) =>
    world.startAgent({ id: 'wrong', embedding, ...(bundle === undefined ? {} : { slms: [bundle] }) })
  await expect(refused(world.bundle)).rejects.toMatchObject({
    code: 'BUNDLE_INVALID',
    hint: expect.stringContaining('--embedding'),
  })
  await expect(refused(bundle, bundle)).rejects.toMatchObject({
    code: 'BUNDLE_INVALID',
    message: expect.stringContaining('embeds'),
  })
  const served = startTestBridge({ bundle, stateDir: join(dir.path, 'other') })
  await expect(served).rejects.toMatchObject({ code: 'BUNDLE_INVALID', message: expect.stringContaining('embeds') })
})
