import { expect, it } from 'vitest'
import { Simulation } from '../../../../lab/simulate/kernel/simulation.ts'
import { buildEngines } from '../../../../lab/simulate/run/build-engines.ts'
import { Cloud, Policies } from '../../../../lab/simulate/scenario/scenario.ts'

const engines = (cloud: { model: string; gpu: string; gpus?: number; pipeline?: number; replicas?: number }) =>
  buildEngines(Cloud.parse(cloud), Policies.parse({}), new Simulation(1), { machines: new Map() })

it('leaves to the KV what the weights leave of the memory', () => {
  const [engine] = engines({ model: 'llama3-8b', gpu: 'rtx-4090' })
  // 0.9 × 24 GiB − 8.03e9 weights in fp16
  expect(engine!.memory.budgetBytes / 1e9).toBeCloseTo(0.9 * 24 * 1.073741824 - 16.06, 1)
})

it('adds the memory of all stages', () => {
  const one = engines({ model: 'llama3-8b', gpu: 'a100-40' })[0]!.memory.budgetBytes
  const four = engines({ model: 'llama3-8b', gpu: 'a100-40', gpus: 2, pipeline: 2 })[0]!.memory.budgetBytes
  expect(four - one).toBeCloseTo(3 * 0.9 * 40 * 2 ** 30, 0)
})

it('makes as many replicas as are asked for', () => {
  expect(engines({ model: 'llama3-8b', gpu: 'a100-40', replicas: 3 })).toHaveLength(3)
})

it('refuses a model that does not fit', () => {
  expect(() => engines({ model: 'llama3-70b', gpu: 'rtx-4090' })).toThrow(/llama3-70b does not fit into 1 × rtx-4090: cloud.gpus/)
})
