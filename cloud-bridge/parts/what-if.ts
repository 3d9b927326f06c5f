import { whatIfRoutes } from '../api/what-if.ts'
import type { Routes } from '../http/router.ts'
import { fleetSituation } from '../what-if/fleet-situation.ts'
import { WhatIf } from '../what-if/what-if.ts'
import type { Base } from './base.ts'
import type { OpenServing } from './serving.ts'
import type { FleetWork } from './work.ts'

/** Simulations of this fleet by the laboratory's simulator, which is a program of its own. */
export function openWhatIf(
  { closers, logger, metrics }: Base,
  { devices: { fleet } }: FleetWork,
  { steps, answers: { models } }: OpenServing,
): Routes {
  const whatIf = new WhatIf(logger.child({ component: 'what-if' }))
  closers.push(() => whatIf.close())
  return whatIfRoutes(whatIf, () =>
    fleetSituation({
      devices: fleet.devices(),
      sizes: metrics.sizes.list(),
      steps: steps.list(),
      model: models[0]?.name,
    }),
  )
}
