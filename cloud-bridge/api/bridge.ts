import { BrimError } from '../../core/kit/base/errors.ts'
import { bridgeOperations, type Health, type LoggedStep } from '../../core/wire/protocol/http/bridge.ts'
import type { SharedDatabase } from '../../core/wire/protocol/http/devices.ts'
import { type Routes, StreamResponse } from '../http/router.ts'

export interface BridgeRoutesOptions {
  readonly health: () => Omit<Health, 'ok'>
  readonly steps: () => LoggedStep[]
  /** All metrics in Prometheus' text format. */
  readonly metrics: () => Promise<string>
  /** Of a bridge with --database; undefined: it is alone. */
  readonly node: BridgeNodes | undefined
  /** The process ends soon. */
  readonly onEnd: () => void
  /** Of this bridge. */
  readonly id: string
}

interface BridgeNodes {
  describe(): SharedDatabase
  /** @throws BrimError REQUEST_INVALID */
  setDraining(node: string, isDraining: boolean): Promise<void>
}

const noNodes = new BrimError('REQUEST_INVALID', 'this bridge is one process, without --database', {
  hint: 'docs/several-bridges.md',
})

/** `/health`, `/v1/steps`, `/metrics`, `/v1/end` and `/v1/nodes`: state and load of the bridge. */
export function bridgeRoutes({ health, steps, metrics, node, onEnd, id }: BridgeRoutesOptions): Routes {
  const requireNodes = (): BridgeNodes => {
    if (!node) throw noNodes
    return node
  }
  return (router) => {
    for (const operation of [bridgeOperations.drain, bridgeOperations.undrain])
      router.serve(operation, async ({ params, caller }) => {
        const isDraining = operation === bridgeOperations.drain
        caller.auditAs(`bridge.${isDraining ? 'drain' : 'undrain'}`, params.node)
        await requireNodes().setDraining(params.node, isDraining)
        return requireNodes().describe()
      })
    router.serve(bridgeOperations.end, ({ caller }) => {
      if (node)
        throw new BrimError('REQUEST_INVALID', 'this bridge is several processes, with --database', {
          hint: '"brim bridge drain" takes one out',
        })
      caller.auditAs('bridge.end', id)
      onEnd()
      return { ending: true }
    })
    router.serve(bridgeOperations.nodes, () => requireNodes().describe())
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
