import { Scenario } from '../../simulate/scenario/scenario.ts'

const link = { up: { walk: [5e6, 1e7] }, down: { walk: [1e7, 1.5e7] } }
const boards = { name: 'boards', count: 40, board: 'agx-orin-64', smallModels: ['qwen2.5-1.5b'], link, throttles: false }
const phones = { name: 'phones', count: 400, board: 'pixel-7-pro', smallModels: ['bloom-560m'], link, throttles: false }
const workload = {
  promptTokens: { kind: 'lognormal', median: 200, sigma: 0.7 },
  outputTokens: { kind: 'normal', mean: 150, deviation: 40 },
}

/** One for each family of modes: as busy as a serving system is, with the policies of the live system. */
export function scenariosOf(requests: number): readonly Scenario[] {
  const scenario = (mode: string, perS: number, fields: object) =>
    Scenario.parse({
      name: mode,
      ...fields,
      workload: { ...workload, requests, arrivals: { kind: 'poisson', perS }, modes: [{ mode }] },
    })
  const cloud = { model: 'qwen2.5-7b', gpu: 'h100', slowBytes: 64e9 }
  return [
    scenario('cloud', 20, { cloud }),
    scenario('hat', 10, { cloud, devices: [boards] }),
    scenario('pice', 5, { cloud, devices: [boards], policies: { pice: { readsAlong: false } } }),
    scenario('race', 20, { server: {}, devices: [phones] }),
    scenario('local', 5, { devices: [boards] }),
  ]
}

/** That arrive almost at once, and wait: for the cloud's engine, or on the devices. */
export function waitingScenario(mode: 'cloud' | 'local', requests: number): Scenario {
  return Scenario.parse({
    name: `waiting: ${mode}`,
    cloud: { model: 'qwen2.5-7b', gpu: 'h100', policy: 'fcfs', maxWaiting: requests },
    devices: [{ ...boards, count: 1_000 }],
    workload: { ...workload, requests, arrivals: { kind: 'poisson', perS: 1e6 }, modes: [{ mode }] },
  })
}
