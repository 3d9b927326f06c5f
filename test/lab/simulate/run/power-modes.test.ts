import { expect, it } from 'vitest'
import { boardNamed } from '../../../../lab/simulate/hardware/presets/presets.ts'
import { Simulation } from '../../../../lab/simulate/kernel/simulation.ts'
import { buildWorld } from '../../../../lab/simulate/run/build-world.ts'
import { PowerModes } from '../../../../lab/simulate/run/power-modes.ts'
import { Scenario } from '../../../../lab/simulate/scenario/scenario.ts'

function speedsOf(powerModes: unknown, requests = 60): number[] {
  const scenario = Scenario.parse({
    name: 'power modes',
    devices: [{ name: 'boards', count: 1, board: 'agx-orin-64', powerModes, powerModeEvery: 5, link: { up: 1e6, down: 1e6 } }],
    workload: { requests: 1, arrivals: { kind: 'burst' }, promptTokens: 1, outputTokens: 1, modes: [{ mode: 'local' }] },
  })
  const simulation = new Simulation(1)
  const data = { requests: undefined, rates: new Map(), latencies: undefined, machines: new Map() }
  const { devices } = buildWorld(scenario, simulation, data)
  const modes = new PowerModes(scenario.devices, 1, simulation.random('power modes'))
  return Array.from({ length: requests }, () => {
    modes.asked(devices[0]!)
    return 1 / devices[0]!.processor.slowdown
  })
}

it('draws the speed of a device anew after every five requests', () => {
  const speeds = speedsOf([1, 0.5])
  expect(new Set(speeds)).toEqual(new Set([1, 0.5]))
  for (let at = 0; at < speeds.length; at += 5) expect(new Set(speeds.slice(at, at + 5)).size).toBe(1)
})

it('draws among the power modes of the board where that is asked for', () => {
  const own = boardNamed('agx-orin-64').powerModes.map(({ speed }) => speed)
  const speeds = [...new Set(speedsOf('board', 200))].map((speed) => Number(speed.toFixed(9)))
  expect(speeds.sort()).toEqual([...own].sort())
})

it('leaves a device at full speed otherwise', () => {
  expect(new Set(speedsOf(undefined))).toEqual(new Set([1]))
})
