import type { SimulatedDevice } from '../world/simulated-device.ts'
import type { World } from '../world/world.ts'
import { SimulatedSmallModels } from './simulated-small-models.ts'

const known = new WeakMap<SimulatedDevice, SimulatedSmallModels>()

/** The small models of a device, which all modes share. */
export function smallModelsOf(device: SimulatedDevice, { simulation }: World): SimulatedSmallModels {
  const models = known.get(device) ?? new SimulatedSmallModels(device, simulation)
  known.set(device, models)
  return models
}
