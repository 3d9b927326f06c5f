import { describe, expect, it } from 'vitest'
import type { Chain, Sequence } from '../../../../core/model/engine/contract.ts'
import { shared } from '../../../support/shared.ts'
import { smallConfig, someIds, workshop } from './models.ts'

const bench = shared(() => workshop(smallConfig))

/** Prefill chunks, verifications and decodes; after `past` positions. */
const mixes = {
  'two decodes': [
    { past: 7, rows: 1 },
    { past: 30, rows: 1 },
  ],
  'a first prompt beside a decode and a verification': [
    { past: 0, rows: 23 },
    { past: 12, rows: 1 },
    { past: 41, rows: 5 },
  ],
  'two chunks, five verifications and a decode': [
    { past: 64, rows: 32 },
    { past: 3, rows: 17 },
    ...[1, 9, 33, 63, 100].map((past) => ({ past, rows: 4 })),
    { past: 80, rows: 1 },
  ],
  'sixteen decodes of different lengths': Array.from({ length: 16 }, (_, i) => ({ past: 1 + 5 * i, rows: 1 })),
}

describe.each([
  ['fp32', { format: 'fp32' }],
  ['int4 at accuracy level 1', { format: 'int4', accuracyLevel: 1 }],
  ['int4 at accuracy level 4', { format: 'int4', accuracyLevel: 4 }],
  ['int4 at accuracy level 4, in blocks of 64', { format: 'int4', accuracyLevel: 4, blockSize: 64 }],
] as const)('packed steps in %s', (_, format) => {
  describe.each([
    ['whole', {}],
    ['split', { split: 1 }],
  ])('%s', (_name, split) => {
    const chain = shared(async () => (await bench.open({ ...format, ...split })).chain({ cuts: 'half' }))

    it.each(Object.entries(mixes))('return the bits of separate steps: %s', async (_mix, work) => {
      const texts = work.map(({ past, rows }, i) => someIds(chain.manifest, past + rows, i))
      const together = await Promise.all(work.map(({ past }, i) => filled(chain, texts[i]!.slice(0, past))))
      const apart = await Promise.all(work.map(({ past }, i) => filled(chain, texts[i]!.slice(0, past))))

      const items = work.map(({ past }, i) => ({ sequence: together[i]!, ids: texts[i]!.slice(past), select: 'all' as const }))
      const packed = await chain.step(items)
      const separate: Float32Array[] = []
      for (const [i, item] of items.entries()) separate.push(await chain.step([{ ...item, sequence: apart[i]! }]))

      expect(bits(packed)).toEqual(bits(concat(separate)))
      // Another step from there, because the KV must be the same too.
      const more = (sequences: Sequence[]) => sequences.map((sequence) => ({ sequence, ids: [3], select: 'last' as const }))
      expect(bits(await chain.step(more(together)))).toEqual(bits(await chain.step(more(apart))))
      for (const sequence of [...together, ...apart]) sequence.release()
    })
  })
})

async function filled(chain: Chain, ids: number[]): Promise<Sequence> {
  const sequence = chain.createSequence()
  if (ids.length > 0) await chain.step([{ sequence, ids, select: 'none' }])
  return sequence
}

function concat(arrays: Float32Array[]): Float32Array {
  return Float32Array.from(arrays.flatMap((array) => [...array]))
}

const bits = (values: Float32Array) => Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString('hex')
