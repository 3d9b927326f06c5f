import { describe, expect, it } from 'vitest'
import { chooseSplit } from '../../../../core/model/bundle/auto-split.ts'
import { formatsOf } from '../../../../core/model/bundle/build.ts'
import type { DrafterSpec } from '../../../../core/model/bundle/drafters.ts'
import { readArchitecture } from '../../../../core/model/bundle/families/index.ts'
import { memoryNeeds } from '../../../../core/model/bundle/memory-need.ts'
import { qwen05bConfig } from '../../../../lab/random-checkpoint.ts'

const model = readArchitecture({ ...qwen05bConfig, num_hidden_layers: 48 })
const formats = formatsOf({ format: 'int4' }, { tensors: { tensors: [] } as never })
const at = (split: number, context = 4_096) => {
  const { weightBytes, kvBytes } = memoryNeeds(model, formats, split, [], { sessions: 1, context }).device
  return weightBytes + kvBytes
}
const adapterOf = (split: number) => {
  const { heads, kvHeads, headDim, hidden } = model.dims
  const adapter = {
    split,
    features: false,
    hidden,
    heads,
    kvHeads,
    headDim,
    epsilon: 1e-5,
    rope: { theta: 1e4, scaling: { kind: 'none' } },
  }
  return { part: 'adapter', adapter } as unknown as Extract<DrafterSpec, { adapter: unknown }>
}
const choose = (deviceBytes?: number, adapter?: ReturnType<typeof adapterOf>) =>
  chooseSplit({ model, formats, adapter, deviceBytes, context: 4_096 })

describe('chooseSplit', () => {
  it('takes the deepest split up to a tenth of the layers', () => {
    expect(choose().split).toBe(4)
    expect(choose(1e12).split).toBe(4)
  })

  it('takes fewer layers where the device has less memory', () => {
    expect(at(3)).toBeGreaterThan(at(2))
    expect(choose(at(3)).split).toBe(3)
    expect(choose(at(3) - 1).split).toBe(2)
    expect(choose(at(1)).split).toBe(1)
  })

  it('counts the KV of the context', () => {
    expect(at(3, 8_192) - at(3, 4_096)).toBe(4_096 * 3 * 2 * model.dims.kvHeads * model.dims.headDim * 4)
  })

  it('counts KV of layers with a window for all positions, as sequences hold it (docs/adr/0030)', () => {
    const windowed = { ...model, layers: model.layers.map((layer) => ({ ...layer, window: 128 })) }
    const kvOf = (architecture: typeof model) =>
      memoryNeeds(architecture, formats, 3, [], { sessions: 2, context: 4_096 }).bridge.kvBytes
    expect(kvOf(windowed)).toBe(kvOf(model))
  })

  it('takes the split of the adapter, unless it does not fit', () => {
    expect(choose(undefined, adapterOf(9))).toEqual({ split: 9, reason: 'its adapter was trained for this split' })
    expect(choose(at(2), adapterOf(9)).split).toBe(2)
  })

  it('counts a draft head at any split, which it does not decide', () => {
    const layer = { ...model, dims: { ...model.dims, layers: 1 }, layers: model.layers.slice(0, 1), tensorRoot: '' }
    const head = { part: 'adapter', draftHead: { layer, hasBias: true } } as const
    const request = { model, formats, adapter: head, context: 4_096 }
    expect(chooseSplit({ ...request, deviceBytes: undefined }).split).toBe(4)
    expect(chooseSplit({ ...request, deviceBytes: at(4) }).split).toBeLessThan(4)
  })

  it('fails where one layer does not fit', () => {
    expect(() => choose(at(1) - 1)).toThrow(/no split fits in \d+\.\d MB: one layer needs \d+\.\d MB/)
  })
})
