import fc from 'fast-check'
import { expect, it } from 'vitest'
import { Simulation } from '../../../../lab/simulate/kernel/simulation.ts'
import { Processor } from '../../../../lab/simulate/world/processor.ts'

function setUp(throttling?: ConstructorParameters<typeof Processor>[1]) {
  const simulation = new Simulation(1)
  const processor = new Processor(simulation, throttling)
  const endsMs: number[] = []
  const run = (seconds: number) => processor.run(seconds, () => endsMs.push(simulation.nowMs))
  const advance = () => simulation.advance(1_000)
  return { simulation, processor, endsMs, run, advance }
}

it('does one task after the other, and before what their ends lead to', () => {
  const { simulation, processor, endsMs, run, advance } = setUp()
  processor.run(1, () => run(1))
  run(2)
  advance()
  expect(endsMs).toEqual([3_000, 4_000])
  expect([processor.busyS, simulation.nowMs]).toEqual([4, 4_000])
})

it('begins each task at the speed that it has then', () => {
  const { simulation, processor, endsMs, run, advance } = setUp()
  run(1)
  run(1)
  simulation.at(500, () => {
    processor.slowdown = 3
  })
  advance()
  expect(endsMs).toEqual([1_000, 4_000])
  expect(processor.busyS).toBe(4)
})

it('drops a running task at once, and says which share of it was done', () => {
  const { simulation, processor, endsMs, run, advance } = setUp()
  processor.slowdown = 2
  const drop = run(2)
  run(1)
  let share = 0
  simulation.at(1_000, () => {
    share = drop()
  })
  advance()
  // 1 s of 4, then 2.
  expect([share, processor.busyS]).toEqual([0.25, 3])
  expect(endsMs).toEqual([3_000])
})

it('drops a waiting task without a trace', () => {
  const { processor, endsMs, run, advance } = setUp()
  run(1)
  const drop = run(5)
  run(1)
  expect(drop()).toBe(0)
  advance()
  expect([endsMs, processor.busyS]).toEqual([[1_000, 2_000], 2])
})

it('cools while it rests, for as long as it rests', () => {
  const { simulation, endsMs, run, advance } = setUp({ sustained: 0.5, timeConstantS: 10 })
  // As hot as it gets, then a rest of the time constant.
  run(1_000)
  advance()
  const begunMs = simulation.nowMs + 10_000
  simulation.at(begunMs, () => run(1))
  advance()
  expect(endsMs[1]! - begunMs).toBeCloseTo(1_000 / (1 - 0.5 * Math.exp(-1)), 6)
})

it('is heated by what was done of a dropped task alone', () => {
  const { simulation, endsMs, run, advance } = setUp({ sustained: 0.5, timeConstantS: 10 })
  const drop = run(1_000)
  simulation.at(10, () => {
    drop()
    run(1)
  })
  advance()
  // 10 ms of work make it 0.05 % slower.
  expect(endsMs[0]! - 10).toBeCloseTo(1_000.5, 1)
})

it('is busy for as long as its tasks take, whichever are dropped', () => {
  const anyTask = fc.record({
    atMs: fc.integer({ min: 0, max: 10_000 }),
    seconds: fc.double({ min: 0, max: 3, noNaN: true }),
    dropAfterMs: fc.option(fc.integer({ min: 0, max: 5_000 })),
  })
  fc.assert(
    fc.property(fc.array(anyTask, { maxLength: 20 }), (tasks) => {
      const { simulation, processor, advance } = setUp()
      let doneS = 0
      for (const { atMs, seconds, dropAfterMs } of tasks)
        simulation.at(atMs, () => {
          let isDone = false
          const drop = processor.run(seconds, () => {
            isDone = true
            doneS += seconds
          })
          if (dropAfterMs !== null)
            simulation.after(dropAfterMs, () => {
              if (!isDone) doneS += seconds * drop()
            })
        })
      advance()
      expect(processor.busyS).toBeCloseTo(doneS, 6)
    }),
  )
})
