import { Ewma } from '../../../../core/policy/estimate/ewma.ts'
import type { ExpandingDevice } from '../../../../core/policy/pice/state.ts'
import type { DeviceSmallModels } from '../../device/device-small-models.ts'
import type { PiceSettings } from '../../scenario/pice-settings.ts'
import type { SimulatedDevice } from '../../world/simulated-device.ts'
import type { ExpansionJob } from './expansion-job.ts'

/** A device that expands sketches, and what the bridge knows of it. Mutable. */
export class Helper {
  readonly device: SimulatedDevice
  readonly models: DeviceSmallModels
  job: ExpansionJob | undefined
  readonly #abilities: PiceSettings['abilities']
  /** Time in which it has accepted sketches, in seconds. */
  readonly #acceptS = new Ewma()
  #known: ExpandingDevice | undefined

  constructor(device: SimulatedDevice, models: DeviceSmallModels, abilities: PiceSettings['abilities']) {
    this.device = device
    this.models = models
    this.#abilities = abilities
    models.onChange(() => {
      this.#known = undefined
    })
  }

  /** A job was accepted, so many seconds after its submission. */
  accepted(seconds: number): void {
    this.#acceptS.record(seconds)
    this.#known = undefined
  }

  /** As it is without a job. */
  get idle(): ExpandingDevice {
    this.#known ??= this.#describe()
    return this.#known
  }

  /** As it is now. */
  get now(): ExpandingDevice {
    return this.job ? { ...this.idle, busyS: this.job.busyS } : this.idle
  }

  #describe(): ExpandingDevice {
    const { device, models } = this
    const speeds = models.speeds(false).map((speed) => ({ ...speed, ability: this.#abilities[speed.model] }))
    return {
      device: String(device.index),
      // Ascending by ability where all are known, else by size.
      models: speeds.every(({ ability }) => ability !== undefined) ? speeds.sort((a, b) => a.ability! - b.ability!) : speeds,
      current: models.current,
      busyS: 0,
      networkS: this.#acceptS.value ?? device.link.rttMs / 1_000,
    }
  }
}
