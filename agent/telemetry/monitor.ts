import type { DeviceCondition } from '../../core/protocol/device-condition.ts'
import type { AnswerMeter } from '../answer/meter.ts'
import type { Sample } from '../device/sample.ts'
import { createSampler, type SamplerOptions } from '../device/sampler.ts'
import type { RecentErrors } from './recent-errors.ts'
import { TokenEnergy } from './token-energy.ts'

export interface MonitorOptions extends SamplerOptions {
  readonly everyMs: number
  readonly answers: AnswerMeter
  readonly errors: RecentErrors
  /** Of Brim. */
  readonly agent: string
  readonly modelId: string
  /** What the agent knows of its work. */
  readonly work: () => Pick<DeviceCondition, 'bundles' | 'jobs' | 'spool'>
  /** By model, of those that run here whole. */
  readonly prefillTokensPerS: () => Record<string, number>
}

/** Looks at the device regularly, once for all who report it. */
export interface DeviceMonitor {
  start(): void
  /** The last sample, with what the agent knows by now; undefined before the first. */
  latest(): DeviceCondition | undefined
  close(): Promise<void>
}

export function createMonitor(options: MonitorOptions): DeviceMonitor {
  const { clock, everyMs, answers, errors, agent, modelId, work, prefillTokensPerS } = options
  const sampler = createSampler(options)
  const energy = new TokenEnergy()
  const stopping = new AbortController()
  const { signal } = stopping
  let last: Sample | undefined
  let running: Promise<void> | undefined

  async function run(): Promise<void> {
    while (!signal.aborted) {
      const sample = await sampler.sample(signal)
      if (signal.aborted) return
      last = sample
      const { totalW: watts } = sample.power
      if (watts !== null) energy.sampled({ watts, isBusy: answers.underWay > 0, ...answers.totals })
      await clock.sleep(everyMs, signal).catch(() => {})
    }
  }

  return {
    start() {
      running ??= run()
    },
    latest() {
      if (!last) return undefined
      const { decodeTokensPerS } = answers
      const prefill = prefillTokensPerS()
      return {
        ...last,
        device: { ...last.device, agent, modelId },
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
        answers: { underWay: answers.underWay, decodeTokensPerS, prefillTokensPerS: prefill },
      }
    },
    async close() {
      stopping.abort()
      await running
    },
  }
}
