import { apiServer } from '../hardware/api-server.ts'
import { boardNamed, modelNamed } from '../hardware/presets/presets.ts'
import { reaching } from '../hardware/roofline.ts'
import type { Simulation } from '../kernel/simulation.ts'
import type { DeviceGroup, Scenario } from '../scenario/scenario.ts'
import { EnergyMeter } from '../world/energy-meter.ts'
import { Processor } from '../world/processor.ts'
import type { SimulatedDevice } from '../world/simulated-device.ts'
import { SimulatedLink } from '../world/simulated-link.ts'
import type { World } from '../world/world.ts'
import { buildEngines } from './build-engines.ts'
import { linksOf } from './build-links.ts'
import type { ScenarioData } from './scenario-data.ts'

/** Everything that a scenario describes. @throws BrimError USAGE for a preset that there is not */
export function buildWorld(scenario: Scenario, simulation: Simulation, data: ScenarioData): World {
  const { cloud } = scenario
  const devices: SimulatedDevice[] = []
  for (const group of scenario.devices) addGroup(devices, group, simulation, data)
  return {
    simulation,
    scenario,
    devices,
    model: cloud && modelNamed(cloud.model),
    engines: cloud ? buildEngines(cloud, scenario.policies, simulation, data) : [],
    server: scenario.server && apiServer(scenario.server, data.latencies),
  }
}

function addGroup(devices: SimulatedDevice[], group: DeviceGroup, simulation: Simulation, data: ScenarioData): void {
  const preset = data.machines.get(group.board) ?? boardNamed(group.board)
  const board = { ...preset, hardware: reaching(preset.hardware, group.reaches) }
  const smallModels = group.smallModels.map(modelNamed)
  const nextLink = linksOf(group.link, data, simulation.random(`links of ${group.name}`))
  const loss = simulation.random(`packet loss of ${group.name}`)
  for (let i = 0; i < group.count; i += 1)
    devices.push({
      index: devices.length,
      group: group.name,
      board,
      hardware: board.hardware,
      smallModels,
      processor: new Processor(simulation, group.throttles ? board.throttling : undefined),
      link: new SimulatedLink(simulation, nextLink(), loss),
      energy: new EnergyMeter(board.power),
    })
}
