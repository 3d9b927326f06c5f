import { expect, it } from 'vitest'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { smallModelStepS } from '../../../lab/simulate/device/small-model-step.ts'
import { Heat } from '../../../lab/simulate/hardware/heat.ts'
import { headOf, hiddenStateBytes, layersOf, wholeModel } from '../../../lab/simulate/hardware/model-shape.ts'
import { lossDelayMs, rateUnderLoss } from '../../../lab/simulate/hardware/packet-loss.ts'
import { boardNamed, boards, gpuNamed, modelNamed } from '../../../lab/simulate/hardware/presets/presets.ts'
import {
  addWork,
  type Hardware,
  handOverS,
  headS,
  noWork,
  stepS,
  together,
  workOf,
} from '../../../lab/simulate/hardware/roofline.ts'
import { Simulation } from '../../../lab/simulate/kernel/simulation.ts'
import { EnergyMeter } from '../../../lab/simulate/world/energy-meter.ts'
import { Processor } from '../../../lab/simulate/world/processor.ts'
import { SimulatedLink } from '../../../lab/simulate/world/simulated-link.ts'

const shape = modelNamed('llama3-8b')
const whole = wholeModel(shape)
const gpu = gpuNamed('h200')

/** Seconds of everything else are nothing. */
const machine = (rates: Partial<Hardware>): Hardware => ({
  ...gpu,
  bytesPerS: Number.POSITIVE_INFINITY,
  flopPerS: Number.POSITIVE_INFINITY,
  peerBytesPerS: Number.POSITIVE_INFINITY,
  layerS: 0,
  ...rates,
})

it('reads the weights once however many rows there are, and the KV of each stream', () => {
  const slowMemory = machine({ bytesPerS: 1e9 })
  const kv = whole.kvBytesPerPosition
  expect(stepS(slowMemory, whole, workOf(1, 99))).toBeCloseTo((whole.weightBytes + 100 * kv) / 1e9, 9)
  expect(stepS(slowMemory, whole, workOf(8, 92))).toBeCloseTo((whole.weightBytes + 100 * kv) / 1e9, 9)
  const two = addWork(workOf(1, 99), workOf(1, 49))
  expect(stepS(slowMemory, whole, two)).toBeCloseTo((whole.weightBytes + 150 * kv) / 1e9, 9)
})

it('computes each row, and its attention to every earlier position', () => {
  const slowCores = machine({ flopPerS: 1e12 })
  const flop = 3 * whole.flopPerRow + (101 + 102 + 103) * whole.flopPerRowAndPosition
  expect(stepS(slowCores, whole, workOf(3, 100))).toBeCloseTo(flop / 1e12, 9)
  expect(headS(slowCores, headOf(shape), 3)).toBeCloseTo((3 * 2 * 4096 * 128_256) / 1e12, 9)
})

it('takes no time for no rows, and the time of launches for any', () => {
  expect(stepS(gpu, whole, noWork)).toBe(0)
  expect(headS(gpu, headOf(shape), 0)).toBe(0)
  expect(stepS(machine({ layerS: 1e-3 }), whole, workOf(5, 0))).toBeCloseTo(0.032, 9)
})

it('takes as long for a model in two parts as for the whole', () => {
  const parts = [layersOf(shape, 0, 10), layersOf(shape, 10, 32)].map((part) => stepS(gpu, part, workOf(64, 500)))
  expect(parts[0]! + parts[1]!).toBeCloseTo(stepS(gpu, whole, workOf(64, 500)), 12)
})

it('is faster on several GPUs, by less than their number', () => {
  const times = [1, 2, 4, 8].map((count) => stepS(together(gpu, count), whole, workOf(512, 0)))
  for (let i = 1; i < times.length; i += 1) {
    expect(times[i]!).toBeLessThan(times[i - 1]!)
    expect(times[i]!).toBeGreaterThan(times[i - 1]! / 2)
  }
  expect(together(gpu, 1)).toBe(gpu)
  expect(together(gpu, 4).memoryBytes).toBe(4 * gpu.memoryBytes)
})

it('sums hidden states over the links between GPUs twice in each layer', () => {
  const ring = together(machine({ peerBytesPerS: 1e9 }), 4)
  const seconds = stepS(ring, whole, workOf(100, 0)) - stepS(ring, whole, workOf(50, 0))
  // 2·(n − 1)/n of 50 states of 8 KiB, twice in each of 32 layers.
  expect(seconds).toBeCloseTo((1.5 * 50 * 8192 * 2 * 32) / 1e9, 6)
})

it('pays for two exchanges in each layer, however little is summed', () => {
  const fast = machine({})
  // 20 µs each, in each of 32 layers.
  expect(stepS(together(fast, 2), whole, workOf(1, 0)) - stepS(fast, whole, workOf(1, 0))).toBeCloseTo(32 * 40e-6, 9)
})

it('hands hidden states from stage to stage of a pipeline', () => {
  const peers = machine({ peerBytesPerS: 1e9 })
  expect(handOverS(peers, shape, 100) - handOverS(peers, shape, 0)).toBeCloseTo((100 * hiddenStateBytes(shape)) / 1e9, 12)
})

it.each([
  ['pixel-7-pro', 'bloom-1.1b', 31.32, 13.93],
  ['pixel-7-pro', 'bloom-560m', 51.8, 20.14],
  ['xiaomi-14', 'qwen1.5-0.5b', 79.9, 21.47],
])('%s with %s has the rates that DiSCo measured', (board, model, prefillTokensPerS, decodeTokensPerS) => {
  const stepOf = (rows: number, context: number) =>
    smallModelStepS(boardNamed(board), modelNamed(model), { ...workOf(rows, context), chosen: 1 })
  expect(1 / stepOf(1, 700)).toBeCloseTo(decodeTokensPerS, 9)
  expect(500 / stepOf(500, 0)).toBeCloseTo(prefillTokensPerS, 9)
})

it('takes the time of the roofline, head included, where no rates were measured with the model', () => {
  for (const board of boards)
    expect(smallModelStepS(board, shape, { ...workOf(3, 50), chosen: 2 })).toBeCloseTo(
      stepS(board.hardware, whole, { ...workOf(3, 50), chosen: 2 }) + headS(board.hardware, headOf(shape), 2),
      12,
    )
})

it('slows by work and recovers by rest', () => {
  const heat = new Heat({ sustained: 0.5, timeConstantS: 100 })
  expect(heat.slowdown).toBe(1)
  heat.worked(100)
  expect(heat.slowdown).toBeCloseTo(1 / (1 - 0.5 * (1 - Math.exp(-1))), 9)
  heat.worked(1e6)
  expect(heat.slowdown).toBeCloseTo(2, 9)
  heat.rested(100)
  expect(heat.slowdown).toBeCloseTo(1 / (1 - 0.5 * Math.exp(-1)), 9)
})

it('does the same work in more time on a hot processor', async () => {
  const simulation = new Simulation(1)
  const processor = new Processor(simulation, { sustained: 0.5, timeConstantS: 10 })
  const endsMs: number[] = []
  for (let i = 0; i < 100; i += 1) processor.run(1, () => endsMs.push(simulation.nowMs))
  let later = 0
  simulation.at(1_000_000, () => processor.run(1, () => (later = simulation.nowMs)))
  await simulation.run()
  expect(endsMs[0]).toBe(1_000)
  expect(endsMs[99]! - endsMs[98]!).toBeCloseTo(2_000, 0)
  expect(later).toBeCloseTo(1_001_000, 0)
})

it('is no slower without losses, and slower with more of them', () => {
  expect(lossDelayMs(1e6, 1_000, 50, 0, seededRandom(1))).toBe(0)
  expect(rateUnderLoss(0.01, 100)).toBeCloseTo(14_480 * Math.sqrt(150), 6)
  const mean = (share: number) => {
    const random = seededRandom(1)
    let sum = 0
    for (let i = 0; i < 2_000; i += 1) sum += lossDelayMs(20_000, 10, 50, share, random)
    return sum / 2_000
  }
  expect(mean(0.01)).toBeGreaterThan(1)
  expect(mean(0.05)).toBeGreaterThan(3 * mean(0.01))
})

it('waits a round trip for what was lost in a message, two for what was lost at its end', () => {
  // 1 segment: nothing after it says that it is missing.
  expect(lossDelayMs(100, 0, 40, 0.01, { next: sequence(0.001, 0.5, 0.999_999) })).toBe(80)
  expect(lossDelayMs(100, 0, 1, 0.01, { next: sequence(0.001, 0.5, 0.999_999) })).toBe(10)
  // The first of 100: the others take longer than its repair.
  expect(lossDelayMs(144_800, 1_000, 40, 0.01, { next: sequence(0.001, 0.5, 0.999_999) })).toBe(0)
  expect(lossDelayMs(144_800, 0, 40, 0.01, { next: sequence(0.001, 0.5, 0.999_999) })).toBe(40)
})

function sequence(...values: number[]): () => number {
  let at = 0
  return () => values[Math.min(at++, values.length - 1)]!
}

it('delivers in order over a link that loses packets, and says how long its radio worked', async () => {
  const simulation = new Simulation(3)
  const rate = { intervalMs: 1_000, bytesPerS: [1e6] }
  const link = new SimulatedLink(simulation, { up: rate, down: rate, rttMs: 10, lossShare: 0.1 }, simulation.random('loss'))
  const arrived: number[] = []
  for (let i = 0; i < 200; i += 1) {
    const seconds = link.send('up', 5_000, () => arrived.push(i))
    expect(seconds).toBeGreaterThanOrEqual(0.005 - 1e-9)
  }
  await simulation.run()
  expect(arrived).toEqual(Array.from({ length: 200 }, (_, i) => i))
  // Half of 1 MB/s is what one packet in ten lost leaves: 1,448 B / 10 ms · √15.
  expect(simulation.nowMs).toBeGreaterThan(1_700)
})

it('spends energy for computing and for the radio', () => {
  const meter = new EnergyMeter({ idleW: 1, computeW: 10, radioW: 2 })
  expect(meter.compute(3)).toBe(30)
  expect(meter.radio(4)).toBe(8)
  expect(meter.joules).toBe(38)
})
