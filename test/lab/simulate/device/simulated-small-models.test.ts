import { describe, expect, it } from 'vitest'
import { SimulatedSmallModels } from '../../../../lab/simulate/device/simulated-small-models.ts'
import { wholeModel } from '../../../../lab/simulate/hardware/model-shape.ts'
import { boardNamed, modelNamed } from '../../../../lab/simulate/hardware/presets/presets.ts'
import { reaching, stepS, workOf } from '../../../../lab/simulate/hardware/roofline.ts'
import { Simulation } from '../../../../lab/simulate/kernel/simulation.ts'

function world(board: string, ...models: string[]) {
  const simulation = new Simulation(1)
  const small = new SimulatedSmallModels({ board: boardNamed(board), smallModels: models.map(modelNamed) }, simulation)
  const opened: { readonly name: string; readonly atS: number; readonly release: () => void }[] = []
  const borrow = (name: string) => small.borrow(name, (release) => opened.push({ name, atS: simulation.nowMs / 1_000, release }))
  return { simulation, small, opened, borrow }
}

describe('the small models of a device', () => {
  it('are those that fit, ascending by size, larger ones slower', () => {
    const { small } = world('orin-nx', 'llama3-8b', 'qwen2.5-7b', 'qwen2.5-1.5b')
    expect(small.shapes.map(({ name }) => name)).toEqual(['qwen2.5-1.5b'])
    const speeds = world('agx-orin-64', 'llama3-8b', 'qwen2.5-1.5b').small.speeds(false)
    expect(speeds.map(({ model }) => model)).toEqual(['qwen2.5-1.5b', 'llama3-8b'])
    expect(speeds[1]!.tpotS).toBeGreaterThan(3 * speeds[0]!.tpotS)
    // Sixteen sequences share the weights.
    expect(speeds[0]!.parallel.at(-1)![1]).toBeGreaterThan(4)
  })

  it('are read from disk once, and open from then on', async () => {
    const { simulation, small, opened, borrow } = world('agx-orin-64', 'qwen2.5-1.5b')
    borrow('qwen2.5-1.5b')
    borrow('qwen2.5-1.5b')
    await simulation.run()
    // 3.1 GB at 1 GB/s.
    expect(opened.map(({ atS }) => atS)).toEqual([expect.closeTo(3.1, 1), expect.closeTo(3.1, 1)])
    expect(small.current).toBe('qwen2.5-1.5b')
    expect(small.speeds(true)[0]!.loadS).toBe(0)
    expect(small.speeds(false)[0]!.loadS).toBeCloseTo(3.1, 1)
  })

  it('wait for memory that others use, and take their place once they are returned', async () => {
    const { simulation, opened, borrow } = world('agx-orin-32', 'llama3-8b', 'qwen2.5-7b')
    borrow('llama3-8b')
    borrow('qwen2.5-7b')
    simulation.at(100_000, () => opened[0]!.release())
    await simulation.run()
    expect(opened.map(({ name }) => name)).toEqual(['llama3-8b', 'qwen2.5-7b'])
    expect(opened[1]!.atS).toBeGreaterThan(100)
  })

  it('are as slow as what they have written says', () => {
    const { small } = world('agx-orin-64', 'qwen2.5-1.5b')
    const before = small.speeds(false)[0]!
    small.record('qwen2.5-1.5b', { sequences: 1, tokens: 100, tookMs: 4_000 * (before.ttftS + 99 * before.tpotS) })
    expect(small.speeds(false)[0]!.tpotS / before.tpotS).toBeCloseTo(4 ** 0.25, 2)
  })
})

describe('what a framework reaches of a machine', () => {
  const { hardware } = boardNamed('agx-orin-64')
  const model = wholeModel(modelNamed('qwen2.5-1.5b'))
  const all = { memory: 1, compute: 1, decode: 1, layerMs: 0 }

  it('is all of it by default', () => {
    expect(reaching(hardware, all)).toBe(hardware)
  })

  it('slows what each share bounds: weights, prompts, rows whose tokens are chosen, and layers', () => {
    const timeOf = (reached: Partial<typeof all>, rows: number, chosen: number) =>
      stepS(reaching(hardware, { ...all, ...reached }), model, { ...workOf(rows, 0), chosen })
    const one = timeOf({}, 1, 1)
    expect(timeOf({ memory: 0.5 }, 1, 1) / one).toBeGreaterThan(1.7)
    const prompt = timeOf({}, 2_000, 0)
    expect(timeOf({ compute: 0.5 }, 2_000, 0) / prompt).toBeGreaterThan(1.9)
    expect(timeOf({ decode: 0.1 }, 2_000, 0)).toBe(prompt)
    expect(timeOf({ decode: 0.1 }, 2_000, 2_000) / prompt).toBeGreaterThan(5)
    expect(timeOf({ layerMs: 2 }, 1, 1) - one).toBeCloseTo(28 * 0.002, 6)
  })
})
