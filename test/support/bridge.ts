import { type Bridge, type BridgeVariant, startBridge } from '../../cloud-bridge/bridge.ts'
import type { BridgeSettings } from '../../cloud-bridge/config.ts'
import { openServedModel } from '../../cloud-bridge/serving/open-served-model.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import type { Health } from '../../core/wire/protocol/http/bridge.ts'

export interface TestBridge extends Bridge, AsyncDisposable {
  /** Of its first bundle; empty where it serves none. */
  readonly modelId: string
}

/** Most bridges of tests never have a step of many streams, and to compile its graphs takes most of their start. */
const lean: BridgeVariant = { openModel: (options) => openServedModel({ ...options, compiled: [1] }) }

/** A bridge in this process, by default on free loopback ports and without a log. */
export async function startTestBridge(settings: BridgeSettings, clock?: Clock, variant?: BridgeVariant): Promise<TestBridge> {
  const defaults = { mqttPort: 0, httpPort: 0, threads: 1, logLevel: 'silent' } as const
  const bridge = await startBridge({ ...defaults, ...settings }, clock, { ...lean, ...variant })
  return Object.assign(bridge, { modelId: bridge.modelIds[0] ?? '', [Symbol.asyncDispose]: bridge.close })
}

export async function healthOf({ httpUrl }: Pick<Bridge, 'httpUrl'>): Promise<Health> {
  return (await (await fetch(`${httpUrl}/health`)).json()) as Health
}
