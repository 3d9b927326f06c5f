import type { Clock } from '../../core/kit/base/clock.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import type { BatteryCondition } from '../../core/policy/disco/exchange-rate.ts'
import type { Sample } from '../device/sample.ts'
import type { Sampler } from '../device/sampler.ts'
import { TokenEnergy } from './token-energy.ts'

/** An older sample does not count as the present one. */
const maxAgeMs = 30_000
const unreadable: BatteryCondition = { level: undefined, isPlugged: undefined }

/**
 * The device's battery, and its power while the small model computes. It samples the device by itself where nothing else has done so,
 * because the worth of energy does not depend on whether telemetry is reported.
 */
export class PowerState implements Sampler {
  readonly #sampler: Sampler
  readonly #isComputing: () => boolean
  readonly #clock: Clock
  readonly #energy = new TokenEnergy()
  #sampling: Promise<Sample> | undefined
  #last: { readonly sample: Sample; readonly atMs: number } | undefined

  /** @param isComputing whether the small model computes now */
  constructor(sampler: Sampler, isComputing: () => boolean, clock: Clock) {
    this.#sampler = sampler
    this.#isComputing = isComputing
    this.#clock = clock
  }

  /** Calls at the same time share one sample. */
  sample(signal: AbortSignal): Promise<Sample> {
    this.#sampling ??= this.#sample(signal).finally(() => {
      this.#sampling = undefined
    })
    return this.#sampling
  }

  /** Keeps the state up to date. @returns stops it */
  start(): () => Promise<void> {
    const stopping = new AbortController()
    const refresh = async () => {
      const isDue = this.#last === undefined || this.#clock.nowMs() - this.#last.atMs >= maxAgeMs
      if (isDue) await this.sample(stopping.signal)
    }
    const first = refresh()
    const stop = repeatEvery(this.#clock, maxAgeMs, refresh)
    return async () => {
      stopping.abort()
      await Promise.all([first, stop()])
    }
  }

  /** While the small model computes; null until it has been measured. */
  get busyW(): number | null {
    return this.#energy.busyW
  }

  /** @returns undefined: there is none. A phone has one; one that says nothing of it hides it. */
  get battery(): BatteryCondition | undefined {
    if (!this.#last) return unreadable
    const { battery, device } = this.#last.sample
    if (!battery) return device.kind === 'termux' ? unreadable : undefined
    const { levelPercent, isPlugged, state } = battery
    const charges = state === 'charging' || state === 'full'
    return { level: levelPercent === null ? undefined : levelPercent / 100, isPlugged: isPlugged ?? (charges ? true : undefined) }
  }

  async #sample(signal: AbortSignal): Promise<Sample> {
    const sample = await this.#sampler.sample(signal)
    if (signal.aborted) return sample
    this.#last = { sample, atMs: this.#clock.nowMs() }
    const { totalW: watts } = sample.power
    if (watts !== null) this.#energy.sampled({ watts, isBusy: this.#isComputing(), busyS: 0, tokens: 0 })
    return sample
  }
}
