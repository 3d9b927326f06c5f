import type { AnswerMeter } from '../../core/answer/endpoint/meter.ts'
import type { DeviceCondition } from '../../core/wire/protocol/device-condition.ts'
import type { Sample } from '../device/sample.ts'
import type { Sampler } from '../device/sampler.ts'
import type { RecentErrors } from './recent-errors.ts'
import { TokenEnergy } from './token-energy.ts'

export interface ConditionMonitorOptions {
  readonly sampler: Sampler
  readonly answers: Pick<AnswerMeter, 'active' | 'decodeTokensPerS' | 'totals'>
  readonly errors: RecentErrors
  readonly agent: string
  readonly modelId: () => string | null
  /** The sections that the agent knows without a sample. */
  readonly work: () => Pick<DeviceCondition, 'bundles' | 'jobs' | 'spool' | 'spending'>
  /** By model, of the models that run whole on this device. */
  readonly prefillTokensPerS: () => Record<string, number>
}

/** The device's condition: its last sample, with the agent's own figures. */
export class ConditionMonitor {
  readonly #options: ConditionMonitorOptions
  readonly #energy = new TokenEnergy()
  #last: Sample | undefined

  constructor(options: ConditionMonitorOptions) {
    this.#options = options
  }

  /** Samples the device; takes up to a few seconds. */
  async sample(signal: AbortSignal): Promise<void> {
    const { answers, sampler } = this.#options
    const sample = await sampler.sample(signal)
    if (signal.aborted) return
    this.#last = sample
    const { totalW: watts } = sample.power
    if (watts !== null) this.#energy.sampled({ watts, isBusy: answers.active > 0, ...answers.totals })
  }

  /** Undefined before the first sample. */
  get latest(): DeviceCondition | undefined {
    const { answers, errors, agent, modelId, work, prefillTokensPerS } = this.#options
    const last = this.#last
    if (!last) return undefined
    const { active, decodeTokensPerS } = answers
    const prefill = prefillTokensPerS()
    const energy = this.#energy
    return {
      ...last,
      device: { ...last.device, agent, modelId: modelId() },
      power: {
        ...last.power,
        jPerToken: energy.jPerToken,
        busyW: energy.busyW,
        idleW: energy.idleW,
        prefillJPerToken: energy.jPerTokenAt(prefill),
        decodeJPerToken: energy.jPerTokenAt(decodeTokensPerS),
      },
      ...work(),
      errors: errors.list,
      answers: { underWay: active, decodeTokensPerS, prefillTokensPerS: prefill },
    }
  }
}
