import type { BridgeState } from '../../protocol/messages.ts'

/** A bridge that the device can connect to. */
export interface BridgeChoice {
  readonly bridge: string
  /** WebSocket URL of the data plane. */
  readonly data: string
  readonly modelId: string | undefined
  /** Start counter of the bridge. */
  readonly birth: number
}

/**
 * The bridge to connect to. Bridges that serve the device's model are preferred; another is still chosen if it is the
 * only one, so that the error names the mismatch. Then the present bridge is preferred, then the least busy one.
 */
export function chooseBridge(
  states: ReadonlyMap<string, BridgeState>,
  modelId: string | undefined,
  present: string | undefined,
): BridgeChoice | undefined {
  const candidates = [...states].flatMap(([bridge, state]) =>
    state.state === 'ready' && state.data !== undefined
      ? [{ bridge, data: state.data, modelId: state.modelId, birth: state.birth, sessions: state.sessions ?? 0 }]
      : [],
  )
  candidates.sort(
    (a, b) =>
      Number(b.modelId === modelId) - Number(a.modelId === modelId) ||
      Number(b.bridge === present) - Number(a.bridge === present) ||
      a.sessions - b.sessions ||
      (a.bridge < b.bridge ? -1 : 1),
  )
  const [best] = candidates
  return best && { bridge: best.bridge, data: best.data, modelId: best.modelId, birth: best.birth }
}
