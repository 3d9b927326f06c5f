import { bridgeOperations } from '../../core/wire/protocol/http/bridge.ts'
import { type Routes, StreamResponse } from '../http/router.ts'

/** `/metrics`, for Prometheus. @param text all metrics in its text format */
export function metricsRoutes(text: () => Promise<string>): Routes {
  return (router) => {
    router.serve(bridgeOperations.metrics, async () => {
      const body = await text()
      return new StreamResponse((response) => {
        const { contentType } = bridgeOperations.metrics
        response.writeHead(200, { 'content-type': contentType, 'content-length': Buffer.byteLength(body) })
        response.end(body)
      })
    })
  }
}
