import type { SimulatedDevice } from '../world/simulated-device.ts'
import type { World } from '../world/world.ts'
import { DeviceSmallModels } from './device-small-models.ts'

const known = new WeakMap<SimulatedDevice, DeviceSmallModels>()

/** The small models of a device, which all modes share. */
export function smallModelsOf(device: SimulatedDevice, { simulation }: World): DeviceSmallModels {
  const models = known.get(device) ?? new DeviceSmallModels(device, simulation)
  known.set(device, models)
  return models
}
