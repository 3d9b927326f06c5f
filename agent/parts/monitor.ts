import { version } from '../../core/kit/base/version.ts'
import type { ActiveModels } from '../models/active-models.ts'
import type { DeviceSmallModels } from '../pice/device-small-models.ts'
import { ConditionMonitor } from '../telemetry/condition-monitor.ts'
import { rounded } from '../telemetry/measurements.ts'
import type { RecentErrors } from '../telemetry/recent-errors.ts'
import type { Spool } from '../telemetry/spool.ts'
import type { Answering } from './answering.ts'
import type { OwnerBudget } from './budget.ts'
import type { DeviceWork } from './work.ts'

interface MonitoredParts {
  readonly models: ActiveModels
  readonly smallModels: DeviceSmallModels
  readonly answering: Pick<Answering, 'meter'>
  readonly work: Pick<DeviceWork, 'jobs'>
  readonly budget: OwnerBudget
  readonly errors: RecentErrors
}

/** What is sampled of the device's condition and work. */
export function openMonitor(
  { models, smallModels, answering, work, budget: { budget, sampler }, errors }: MonitoredParts,
  spool: Spool,
): ConditionMonitor {
  const bundles = () => {
    const { manifest } = models.llm.current?.model ?? {}
    const small = models.slm?.source
    return {
      llm: manifest ? { name: manifest.card.name, modelId: manifest.modelId } : null,
      slm: small ? { name: small.name, modelId: small.modelId } : null,
      expanding: smallModels.list().map(({ model }) => model),
    }
  }
  return new ConditionMonitor({
    sampler,
    answers: answering.meter,
    errors,
    agent: version,
    modelId: () => models.modelId ?? null,
    work: () => ({ bundles: bundles(), jobs: work.jobs.counts, spool: spool.figures, spending: budget.report }),
    prefillTokensPerS() {
      const rate = rounded(models.slm?.speed.prefillTokensPerS)
      return models.slm && rate !== null ? { [models.slm.source.name]: rate } : {}
    },
  })
}
