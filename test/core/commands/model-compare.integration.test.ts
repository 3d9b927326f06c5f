import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { buildBundle } from '../../../core/model/bundle/build.ts'
import { readManifest } from '../../../core/model/bundle/bundle.ts'
import { loadTokenizer } from '../../../core/model/text/tokenizer.ts'
import { fixtureDir } from '../../oracle/fixtures.ts'
import { brim } from '../../support/brim.ts'
import { captureIo } from '../../support/captured-io.ts'
import { tinyCheckpoint } from '../../support/checkpoint.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const dir = shared(tempDir)
const bundle = (name: string) => join(dir.path, name)
beforeAll(async () => {
  const checkpoint = fixtureDir('llama')
  await buildBundle({ checkpoint, out: bundle('exact'), format: 'fp32' })
  await buildBundle({ checkpoint, out: bundle('rounded'), format: 'int4', split: 1 })
  await buildBundle({ checkpoint: fixtureDir('qwen2'), out: bundle('other'), format: 'fp32' })
  await buildBundle({ checkpoint: await tinyCheckpoint(join(dir.path, 'tiny')), out: bundle('bare'), format: 'fp32' })
})

const lines = 'Once upon a time there was a lamp.\n\nIt shone on the table,\r\nbeside a cup.\n'

/** @param name of the file of texts */
async function compare(
  [first, second]: readonly [string, string],
  content: string | Buffer = lines,
  { name = 'texts.txt', args = [] as string[], ...options }: { name?: string; args?: string[]; signal?: AbortSignal } = {},
) {
  const file = join(dir.path, name)
  writeFileSync(file, content)
  const { io, out, err } = captureIo(options)
  const argv = ['model', 'compare', bundle(first), bundle(second), '--prompts', file, '--threads', '1', ...args]
  const error = await brim(argv, io).then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  return { out: out(), err: err(), error }
}

describe('brim model compare', () => {
  it('finds no difference between a bundle and itself', async () => {
    const { out, error } = await compare(['exact', 'exact'], lines, { args: ['--json'] })
    expect(error).toBeUndefined()
    const { first, second, ...rest } = JSON.parse(out)
    expect(second).toEqual(first)
    const { modelId } = await readManifest(bundle('exact'))
    expect(first).toEqual({ dir: bundle('exact'), modelId, format: 'fp32', perplexity: expect.any(Number) })
    const tokenizer = await loadTokenizer(fixtureDir('llama'))
    const tokens = lines.split(/[\r\n]+/).flatMap((line) => (line === '' ? [] : [tokenizer.encode(line).length - 1]))
    expect(rest).toEqual({
      ...{ perplexityRatio: 1, topAgreement: 1, klNatsPerToken: 0 },
      ...{ tokens: tokens.reduce((sum, count) => sum + count, 0), texts: 3, shortened: 0 },
    })
  })

  it('finds what rounding costs, in text and as JSON', async () => {
    const { first, second, ...found } = JSON.parse((await compare(['exact', 'rounded'], lines, { args: ['--json'] })).out)
    expect(found.klNatsPerToken).toBeGreaterThan(0)
    expect(found.perplexityRatio).toBeCloseTo(second.perplexity / first.perplexity, 9)
    const { out } = await compare(['exact', 'rounded'])
    expect(out).toContain(`exact    fp32  perplexity ${first.perplexity.toFixed(3)}`)
    expect(out).toContain(`rounded  int4  perplexity ${second.perplexity.toFixed(3)}`)
    expect(out).toContain(`KL ${found.klNatsPerToken.toFixed(5)} nats/token`)
    expect(out).toContain(`${found.tokens} tokens of 3 texts`)
  })

  it('reads the prompts of a .jsonl file with their answers', async () => {
    const tokensOf = async (answer: object) => {
      const content = JSON.stringify({ messages: [{ role: 'user', content: 'a lamp' }], ...answer })
      return JSON.parse((await compare(['exact', 'exact'], content, { name: 'chats.jsonl', args: ['--json'] })).out).tokens
    }
    const tokenizer = await loadTokenizer(fixtureDir('llama'))
    const answer = 'It shines.'
    expect((await tokensOf({ answer })) - (await tokensOf({}))).toBe(tokenizer.encode(answer, { addSpecialTokens: false }).length)
  })

  it('cuts texts at the context, and says so', async () => {
    const { contextLimit } = (await readManifest(bundle('exact'))).dims
    const { out, err, error } = await compare(['exact', 'exact'], `${'lamp '.repeat(2 * contextLimit)}\nshort one\n`, {
      args: ['--json'],
    })
    expect(error).toBeUndefined()
    expect(err).toMatch(/1 of 2 texts are longer than the context/)
    const short = (await loadTokenizer(fixtureDir('llama'))).encode('short one').length - 1
    expect(JSON.parse(out)).toMatchObject({ texts: 2, shortened: 1, tokens: contextLimit + short })
  })

  it.each([
    ['of different tokenizers', ['exact', 'other'], lines, /exact and .*other have different tokenizers/],
    ['without a tokenizer', ['exact', 'bare'], lines, /bare has no tokenizer/],
    ['for an empty file', ['exact', 'exact'], '\n \n', /texts\.txt has no text of two tokens/],
    ['for bytes that are no text', ['exact', 'exact'], Buffer.from([0x61, 0xff, 0x0a]), /texts\.txt is not UTF-8/],
  ] as const)('refuses bundles %s', async (_, bundles, content, message) => {
    const { error } = await compare(bundles, content)
    expect(error).toMatchObject({ code: 'REQUEST_INVALID', message: expect.stringMatching(message), hint: expect.any(String) })
  })

  it('names a file that is missing', async () => {
    const { io } = captureIo()
    const argv = ['model', 'compare', bundle('exact'), bundle('exact'), '--prompts', join(dir.path, 'none.txt')]
    await expect(brim(argv, io)).rejects.toMatchObject({ code: 'REQUEST_INVALID', message: expect.stringMatching(/none\.txt/) })
  })

  it('stops at the signal', async () => {
    const reason = new BrimError('CANCELED', 'interrupted')
    const { error, out } = await compare(['exact', 'rounded'], lines, { signal: AbortSignal.abort(reason) })
    expect([error, out]).toEqual([reason, ''])
  })
})
