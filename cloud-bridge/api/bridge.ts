import { bridgeOperations, type Health, type LoggedStep } from '../../core/wire/protocol/http/bridge.ts'
import { type Routes, StreamResponse } from '../http/router.ts'

export interface BridgeRoutesOptions {
  readonly health: () => Omit<Health, 'ok'>
  readonly steps: () => LoggedStep[]
  /** All metrics in Prometheus' text format. */
  readonly metrics: () => Promise<string>
}

/** `/health`, `/v1/steps` and `/metrics`: state and load of the bridge. */
export function bridgeRoutes({ health, steps, metrics }: BridgeRoutesOptions): Routes {
  return (router) => {
    router.serve(bridgeOperations.health, () => ({ ok: true, ...health() }))
    router.serve(bridgeOperations.steps, () => ({ steps: steps() }))
    router.serve(bridgeOperations.metrics, async () => {
      const body = await metrics()
      return new StreamResponse((response) => {
        const { contentType } = bridgeOperations.metrics
        response.writeHead(200, { 'content-type': contentType, 'content-length': Buffer.byteLength(body) })
        response.end(body)
      })
    })
  }
}
