import { describe, expect, it } from 'vitest'
import { PackedDecoder, type SequenceOptions } from '../../../../lab/simulate/device/packed-decoder.ts'
import { smallModelStepS } from '../../../../lab/simulate/device/small-model-step.ts'
import { boardNamed, modelNamed } from '../../../../lab/simulate/hardware/presets/presets.ts'
import { noWork, workOf } from '../../../../lab/simulate/hardware/roofline.ts'
import { Simulation } from '../../../../lab/simulate/kernel/simulation.ts'
import { EnergyMeter } from '../../../../lab/simulate/world/energy-meter.ts'
import { Processor } from '../../../../lab/simulate/world/processor.ts'
import type { SimulatedDevice } from '../../../../lab/simulate/world/simulated-device.ts'

const board = boardNamed('agx-orin-64')
const shape = modelNamed('qwen2.5-1.5b')

function world(maxSequences: number) {
  const simulation = new Simulation(1)
  const processor = new Processor(simulation)
  const device = { board, processor, energy: new EnergyMeter(board.power) } as SimulatedDevice
  const decoder = new PackedDecoder(device, shape, maxSequences)
  const ends: number[] = []
  const add = (options: Partial<SequenceOptions>) =>
    decoder.add({
      copiedTokens: 0,
      parts: [{ promptTokens: 10, outputTokens: 20 }],
      streams: false,
      spent: () => {},
      partEnded: () => ends.push(simulation.nowMs),
      ...options,
    })
  return { simulation, device, decoder, ends, add }
}

describe('sequences that are decoded in packed steps', () => {
  it('take the time of a prompt and of each token after the first', async () => {
    const { simulation, ends, add } = world(4)
    add({})
    await simulation.run()
    const stepsS = Array.from({ length: 19 }, (_, at) => smallModelStepS(board, shape, { ...workOf(1, 10 + at), chosen: 1 }))
    const seconds = stepsS.reduce((sum, each) => sum + each, smallModelStepS(board, shape, { ...workOf(10, 0), chosen: 1 }))
    expect(ends).toEqual([expect.closeTo(1_000 * seconds, 3)])
  })

  it('share the cost of reading the weights, up to the width of a step; others wait', async () => {
    const endOf = async (count: number, width: number) => {
      const { simulation, ends, add } = world(width)
      for (let left = count; left > 0; left -= 1) add({})
      await simulation.run()
      expect(ends).toHaveLength(count)
      return simulation.nowMs
    }
    const alone = await endOf(1, 4)
    expect(await endOf(4, 4)).toBeLessThan(1.1 * alone)
    expect(await endOf(5, 4)).toBeGreaterThan(1.9 * alone)
  })

  it('deliver each token at once where a reader waits for it', async () => {
    const { simulation, add } = world(4)
    const times: number[] = []
    add({ streams: true, wrote: (tokens) => times.push(...Array<number>(tokens).fill(simulation.nowMs)) })
    await simulation.run()
    expect(new Set(times).size).toBe(20)
  })

  it('write several parts in one context, and give a copied prefix for nothing', async () => {
    const { simulation, decoder, add, ends } = world(4)
    add({
      copiedTokens: 100,
      parts: [
        { promptTokens: 5, outputTokens: 3 },
        { promptTokens: 7, outputTokens: 4 },
      ],
    })
    await simulation.run()
    expect(ends).toHaveLength(2)
    expect(decoder.figures).toMatchObject({ promptTokens: 12, outputTokens: 7 })
  })

  it('may be added by the end of another one', async () => {
    const { simulation, decoder, ends, add } = world(4)
    add({ parts: [{ promptTokens: 300, outputTokens: 0 }], partEnded: () => [0, 1].map(() => add({ copiedTokens: 300 })) })
    add({ parts: [{ promptTokens: 30, outputTokens: 5 }] })
    await simulation.run()
    expect(ends).toHaveLength(3)
    expect(decoder.figures).toMatchObject({ promptTokens: 350, outputTokens: 45 })
  })

  it('end when they are dropped; the energy of all steps is shared by those in them', async () => {
    const { simulation, device, decoder, add, ends } = world(4)
    let joules = 0
    const spent = (own: number) => {
      joules += own
    }
    const drop = add({ spent, parts: [{ promptTokens: 10, outputTokens: 1_000 }] })
    add({ spent })
    simulation.at(100, drop)
    await simulation.run()
    expect(ends).toHaveLength(1)
    expect(decoder.load).toBe(0)
    expect(joules).toBeLessThanOrEqual(device.energy.joules + 1e-9)
    expect(device.energy.joules).toBeCloseTo(board.power.computeW * device.processor.busyS, 6)
  })
})

describe('a step of a small model', () => {
  it('takes as long as rates say that were measured', () => {
    const phone = boardNamed('pixel-7-pro')
    const bloom = modelNamed('bloom-1.1b')
    expect(smallModelStepS(phone, bloom, { ...workOf(1, 50), chosen: 1 })).toBeCloseTo(1 / 13.93, 6)
    expect(smallModelStepS(phone, bloom, { ...workOf(100, 0), chosen: 1 })).toBeCloseTo(100 / 31.32, 6)
    expect(smallModelStepS(phone, bloom, noWork)).toBe(0)
  })
})
