import { bridgeOperations, type Health, type LoggedStep } from '../../core/wire/protocol/http/bridge.ts'
import type { Routes } from '../http/router.ts'

export interface BridgeRoutesOptions {
  readonly health: () => Omit<Health, 'ok'>
  readonly steps: () => LoggedStep[]
}

/** `/health` and `/v1/steps`: state and load of the bridge. */
export function bridgeRoutes({ health, steps }: BridgeRoutesOptions): Routes {
  return (router) => {
    router.serve(bridgeOperations.health, () => ({ ok: true, ...health() }))
    router.serve(bridgeOperations.steps, () => ({ steps: steps() }))
  }
}
