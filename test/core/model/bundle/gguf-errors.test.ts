import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { beforeAll, expect, it } from 'vitest'
import { BrimError } from '../../../../core/kit/base/errors.ts'
import { buildBundle } from '../../../../core/model/bundle/build.ts'
import { openCheckpoint } from '../../../../core/model/bundle/checkpoint.ts'
import { fixtureDir } from '../../../oracle/fixtures.ts'
import { type GgufTensor, type GgufValue, ggmlTypes, ggufFile, ggufText, toGguf, u32, u64 } from '../../../support/gguf.ts'
import { shared } from '../../../support/shared.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const dir = shared(tempDir)
let whole: Buffer
beforeAll(async () => {
  whole = await toGguf(fixtureDir('qwen2'))
})

let files = 0
async function refuses(content: Uint8Array | string, code: string, message: RegExp): Promise<void> {
  const checkpoint = join(dir.path, `${files++}.gguf`)
  writeFileSync(checkpoint, content)
  const out = join(dir.path, 'bundle')
  const error = await buildBundle({ checkpoint, out, format: 'fp32' }).catch((caught: unknown) => caught)
  expect(error).toMatchObject({ name: 'BrimError', code, hint: expect.any(String) })
  expect((error as BrimError).message).toMatch(message)
  expect((error as BrimError).message).toMatch(/\d+\.gguf/)
  expect(existsSync(out)).toBe(false)
}

const model = (metadata: Record<string, GgufValue>) => toGguf(fixtureDir('qwen2'), { metadata })
const tensors = (edit: (tensors: GgufTensor[]) => GgufTensor[]) => toGguf(fixtureDir('qwen2'), { edit })
const header = (tensorCount: number | bigint, entryCount: number | bigint, ...rest: Buffer[]) =>
  Buffer.concat([Buffer.from('GGUF'), u32(3), u64(tensorCount), u64(entryCount), ...rest])
const entry = (key: string, type: number, ...value: Buffer[]) => Buffer.concat([ggufText(key), u32(type), ...value])

it('refuses what is no GGUF file of a known version', async () => {
  await refuses('', 'GGUF_INVALID', /has 0 bytes, too few for a header/)
  await refuses(Buffer.alloc(64), 'GGUF_INVALID', /does not begin with "GGUF"/)
  await refuses(
    `version https://git-lfs.github.com/spec/v1\noid sha256:${'0'.repeat(64)}\nsize 9\n`,
    'GGUF_INVALID',
    /pointer of Git LFS/,
  )
  await refuses(Buffer.concat([Buffer.from('GGUF'), u32(1), Buffer.alloc(32)]), 'GGUF_INVALID', /has version 1/)
  await refuses(Buffer.concat([Buffer.from('GGUF\0\0\0\x03'), Buffer.alloc(32)]), 'GGUF_INVALID', /is big-endian/)
})

it('refuses counts, lengths and offsets beyond the file', async () => {
  await refuses(header(2 ** 40, 0), 'GGUF_INVALID', /claims 1099511627776 tensors, but has only 8 bytes left/)
  await refuses(header(0, 2n ** 63n), 'GGUF_INVALID', /gives metadata entries the value 9223372036854775808/)
  await refuses(header(0, 1, u64(60_000), Buffer.alloc(40)), 'GGUF_INVALID', /is cut short: a metadata key ends at byte 60032/)
  await refuses(header(0, 1, u64(2 ** 30), Buffer.alloc(40)), 'GGUF_INVALID', /gives a metadata key 1073741824 bytes/)
  const text = header(0, 1, entry('general.architecture', 8, u64(2 ** 40)), Buffer.alloc(40))
  await refuses(text, 'GGUF_INVALID', /gives general\.architecture 1099511627776 bytes/)
  const items = header(0, 1, entry('tokenizer.ggml.tokens', 9, u32(8), u64(2 ** 31)), Buffer.alloc(40))
  await refuses(items, 'GGUF_INVALID', /claims 2147483648 items of tokenizer\.ggml\.tokens/)
})

it('refuses arrays of arrays and unknown types of values', async () => {
  await refuses(header(0, 1, entry('deep', 9, u32(9), u64(1)), Buffer.alloc(64)), 'GGUF_INVALID', /key deep an array of arrays/)
  await refuses(header(0, 1, entry('odd', 77), Buffer.alloc(64)), 'GGUF_INVALID', /key odd the unknown type 77/)
  const twice = [entry('a', 4, u32(1)), entry('a', 4, u32(2))]
  await refuses(header(0, 2, ...twice), 'GGUF_INVALID', /has the metadata key a twice/)
})

it('refuses tensors of impossible dimensions, types and places', async () => {
  const tensor = (dims: number[], type = 0, offset = 0) =>
    header(1, 0, ggufText('w'), u32(dims.length), ...dims.map(u64), u32(type), u64(offset), Buffer.alloc(4096))
  await refuses(tensor([]), 'GGUF_INVALID', /gives the tensor w 0 dimensions/)
  await refuses(tensor([2, 2, 2, 2, 2]), 'GGUF_INVALID', /gives the tensor w 5 dimensions/)
  await refuses(tensor([2 ** 40, 2 ** 12]), 'GGUF_INVALID', /gives the tensor w the dimensions 1099511627776, 4096/)
  await refuses(tensor([2 ** 31, 2 ** 31]), 'GGUF_INVALID', /is cut short: the tensor w ends at byte/)
  await refuses(tensor([0, 4]), 'GGUF_INVALID', /dimensions 0, 4/)
  await refuses(tensor([33], ggmlTypes.Q4_0), 'GGUF_INVALID', /rows of 33 values, but Q4_0 has blocks of 32/)
  await refuses(tensor([32], 200), 'GGUF_INVALID', /the unknown type 200/)
  await refuses(tensor([256], ggmlTypes.IQ4_XS), 'QUANTISATION_UNSUPPORTED', /the tensor w is IQ4_XS/)
  await refuses(tensor([4], 0, 3), 'GGUF_INVALID', /at offset 3, which is no multiple of 32/)
  await refuses(tensor([4], 0, 2 ** 40), 'GGUF_INVALID', /is cut short: the tensor w ends/)
  const both = [0, 0].flatMap((offset, i) => [ggufText(`w${i}`), u32(1), u64(64), u32(0), u64(offset)])
  await refuses(header(2, 0, ...both, Buffer.alloc(4096)), 'GGUF_INVALID', /overlapping tensors w0 and w1/)
  await refuses(ggufFile({ 'general.alignment': { u32: 24 } }, []), 'GGUF_INVALID', /general\.alignment 24/)
})

it('refuses a tensor that is missing, double, unknown or of another shape', async () => {
  await refuses(
    await tensors((all) => all.filter(({ name }) => name !== 'token_embd.weight')),
    'TENSOR_MISSING',
    /token_embd\.weight/,
  )
  await refuses(await tensors((all) => all.slice(0, -1)), 'TENSOR_MISSING', /\.gguf/)
  await refuses(await tensors((all) => [...all, all[3]!]), 'GGUF_INVALID', /has the tensor .* twice/)
  await refuses(
    await tensors((all) => [...all, { ...all[3]!, name: 'blk.0.ffn_gate_exps.weight' }]),
    'TENSOR_UNEXPECTED',
    /ffn_gate_exps/,
  )
  await refuses(await model({ 'qwen2.feed_forward_length': { u32: 128 } }), 'TENSOR_MISMATCH', /mlp\.\w+_proj.* requires/)
})

it('refuses an architecture that it does not read, and metadata that are missing or of another type', async () => {
  await refuses(await model({ 'general.architecture': { text: 'mamba' } }), 'ARCHITECTURE_UNSUPPORTED', /architecture mamba/)
  await refuses(ggufFile({ 'general.name': { text: 'x' } }, []), 'GGUF_INVALID', /lacks the metadata key general\.architecture/)
  await refuses(
    await model({ 'qwen2.block_count': { text: 'many' } }),
    'GGUF_INVALID',
    /"many" in the metadata key qwen2\.block_count/,
  )
  await refuses(
    await model({ 'qwen2.attention.head_count_kv': { u32: 3 } }),
    'CHECKPOINT_INVALID',
    /4 attention heads cannot share 3/,
  )
  await refuses(
    await model({ 'qwen2.attention.head_count_kv': { i32s: [2, 1] } }),
    'GGUF_INVALID',
    /layers with different values in the metadata key qwen2\.attention\.head_count_kv/,
  )
})

it('refuses a vocabulary that does not belong to the weights, or that it cannot read', async () => {
  const tokens = Array.from({ length: 520 }, (_, id) => `t${id}`)
  const vocabulary: Record<string, GgufValue> = {
    'tokenizer.ggml.tokens': { texts: tokens },
    'tokenizer.ggml.token_type': { i32s: tokens.map(() => 1) },
    'tokenizer.ggml.merges': { texts: [] },
  }
  await refuses(await model(vocabulary), 'VOCABULARY_MISMATCH', /tokens has 520 tokens, but token_embd\.weight has 512 rows/)
  await refuses(await model({ 'tokenizer.ggml.token_type': { i32s: [1] } }), 'TOKENIZER_INVALID', /token_type has 1 items for/)
  await refuses(await model({ 'tokenizer.ggml.eos_token_id': { u32: 9_999 } }), 'TOKENIZER_INVALID', /eos_token_id is 9999/)
  await refuses(await model({ 'tokenizer.ggml.model': { text: 't5' } }), 'TOKENIZER_INVALID', /tokenizer\.ggml\.model is t5/)
  await refuses(await model({ 'tokenizer.ggml.pre': { text: 'new' } }), 'TOKENIZER_INVALID', /tokenizer\.ggml\.pre is new/)
  await refuses(await model({ 'tokenizer.ggml.merges': { texts: ['ab'] } }), 'TOKENIZER_INVALID', /merges has the item "ab"/)
})

it('names the files of a model that are missing or too many', async () => {
  writeFileSync(join(dir.path, 'm-00001-of-00002.gguf'), whole)
  const open = (name: string) => openCheckpoint(join(dir.path, name))
  await expect(open('m-00001-of-00002.gguf')).rejects.toMatchObject({
    code: 'CHECKPOINT_NOT_FOUND',
    message: expect.stringContaining('m-00002-of-00002.gguf does not exist'),
  })
  await expect(open('nowhere.gguf')).rejects.toMatchObject({ code: 'CHECKPOINT_NOT_FOUND' })
  await expect(open('.')).rejects.toMatchObject({ code: 'CHECKPOINT_INVALID', message: expect.stringMatching(/GGUF models/) })
})

it('refuses every cut of a file, and never fails otherwise for any changed byte of its header', async () => {
  const headerBytes = whole.length - 512 * 64 * 4 - 100_000
  await fc.assert(
    fc.asyncProperty(fc.nat(headerBytes), fc.nat(255), fc.boolean(), async (at, value, cuts) => {
      const bytes = Buffer.from(cuts ? whole.subarray(0, at) : whole)
      if (!cuts) bytes[at] = value
      const path = join(dir.path, 'fuzzed.gguf')
      writeFileSync(path, bytes)
      const result = await openCheckpoint(path).catch((error: unknown) => error)
      if (result instanceof Error) expect(result).toBeInstanceOf(BrimError)
      else await (result as AsyncDisposable)[Symbol.asyncDispose]()
      if (cuts) expect(result).toBeInstanceOf(BrimError)
    }),
    { numRuns: 300, seed: 7 },
  )
  expect(readFileSync(join(dir.path, 'm-00001-of-00002.gguf')).equals(whole)).toBe(true)
})
