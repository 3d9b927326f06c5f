import type { ApiServer } from '../hardware/api-server.ts'
import type { TransformerShape } from '../hardware/model-shape.ts'
import type { Simulation } from '../kernel/simulation.ts'
import type { Scenario } from '../scenario/scenario.ts'
import type { SimulatedEngine } from '../serving/simulated-engine.ts'
import type { SimulatedDevice } from './simulated-device.ts'

/** Everything that exists in one run. Modes are made for it, and act in it. */
export interface World {
  readonly simulation: Simulation
  readonly scenario: Scenario
  readonly devices: readonly SimulatedDevice[]
  /** The cloud's model; undefined where the scenario has no cloud. */
  readonly model: TransformerShape | undefined
  /** Replicas of it, each with GPUs of its own; a request goes to the one with the least load. */
  readonly engines: readonly SimulatedEngine[]
  /** A commercial API in place of the cloud (DiSCo). */
  readonly server: ApiServer | undefined
}

/** The replica with the least load. @throws RangeError where the scenario has no cloud */
export function leastLoaded({ engines }: World): SimulatedEngine {
  const [first, ...others] = engines
  if (!first) throw new RangeError('the scenario has no cloud')
  return others.reduce((best, engine) => (engine.load < best.load ? engine : best), first)
}
