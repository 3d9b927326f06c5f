import { version } from '../../core/base/version.ts'
import type { BridgeLinks } from '../link/bridge-links.ts'
import type { ActiveModels } from '../models/active-models.ts'
import type { DeviceSmallModels } from '../pice/device-small-models.ts'
import { ConditionMonitor } from '../telemetry/condition-monitor.ts'
import { measurementsOf, rounded } from '../telemetry/measurements.ts'
import { Reporter } from '../telemetry/reporter.ts'
import type { Answering } from './answering.ts'
import type { Base } from './base.ts'
import type { OwnerBudget } from './budget.ts'
import type { Work } from './work.ts'

/** Samples of the device's condition, reports, and the replay of the spool. */
export function openReporting(
  base: Base,
  models: ActiveModels,
  smallModels: DeviceSmallModels,
  links: BridgeLinks,
  { jobs }: Work,
  { meter }: Answering,
  { budget, sampler }: OwnerBudget,
): Reporter {
  const { config, errors, spool, birth, clock } = base
  const { speed } = models
  const bundles = () => {
    const { manifest } = models.llm.current?.model ?? {}
    const small = models.slm?.source
    return {
      llm: manifest ? { name: manifest.card.name, modelId: manifest.modelId } : null,
      slm: small ? { name: small.name, modelId: small.modelId } : null,
      expanding: smallModels.list().map(({ model }) => model),
    }
  }
  const monitor = new ConditionMonitor({
    sampler,
    answers: meter,
    errors,
    agent: version,
    modelId: () => models.modelId ?? null,
    work: () => ({ bundles: bundles(), jobs: jobs.counts, spool: spool.figures, spending: budget.report }),
    prefillTokensPerS() {
      const rate = rounded(models.slm?.speed.prefillTokensPerS)
      return models.slm && rate !== null ? { [models.slm.source.name]: rate } : {}
    },
  })
  return new Reporter({
    links: links.all,
    hasBridge: () => links.hasBridge,
    replay: (leaf, message) => links.replay(leaf, message),
    spool,
    sample: (signal) => monitor.sample(signal),
    measure: (link) => measurementsOf(link, speed, monitor.latest),
    everyMs: config.telemetryS * 1_000,
    deadBands: config.deadBands,
    birth,
    clock,
  })
}
