import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import { bridgeOperations, type Health, type LoggedStep } from '../../core/wire/protocol/http/bridge.ts'
import type { SharedDatabase } from '../../core/wire/protocol/http/devices.ts'
import type { ServedNow } from '../../core/wire/protocol/http/served-now.ts'
import { batchOf, type EventSource } from '../http/event-streams.ts'
import { type Routes, StreamResponse } from '../http/router.ts'

export interface BridgeRoutesOptions {
  readonly health: () => Omit<Health, 'ok'>
  readonly steps: () => LoggedStep[]
  readonly served: () => ServedNow
  /** All metrics in Prometheus' text format. */
  readonly metrics: () => Promise<string>
  /** Of a bridge with --database; undefined: it is alone. */
  readonly node: BridgeNodes | undefined
  /** The process ends soon. */
  readonly onEnd: () => void
  /** Of this bridge. */
  readonly id: string
  readonly clock: Clock
}

interface BridgeNodes {
  describe(): SharedDatabase
  /** @throws BrimError REQUEST_INVALID */
  setDraining(node: string, isDraining: boolean): Promise<void>
}

const noNodes = new BrimError('REQUEST_INVALID', 'this bridge is one process, without --database', {
  hint: 'docs/several-bridges.md',
})

/** Interval of what a stream of `/v1/served` sends. */
const servedMs = 1_000

/** `/health`, `/v1/steps`, `/v1/served`, `/metrics`, `/v1/end` and `/v1/nodes`: state and load of the bridge. */
export function bridgeRoutes({ health, steps, served, metrics, node, onEnd, id, clock }: BridgeRoutesOptions): Routes {
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
    router.serve(bridgeOperations.served, ({ acceptsEvents, events }) =>
      acceptsEvents ? events(changesOf(served, clock)) : served(),
    )
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

/** What `read` returns, now and each time that it has changed. Nothing is read while there is no reader, or one that does not keep up. */
function changesOf(read: () => unknown, clock: Clock): EventSource {
  let sent: string | undefined
  let isDue = true
  return {
    next() {
      if (!isDue) return batchOf([])
      isDue = false
      const now = read()
      const text = JSON.stringify(now)
      if (text === sent) return batchOf([])
      sent = text
      return batchOf([now])
    },
    subscribe(wake) {
      const stop = repeatEvery(clock, servedMs, () => {
        isDue = true
        wake()
      })
      return () => void stop()
    },
  }
}
