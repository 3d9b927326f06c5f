import type { BridgeState } from '../../protocol/messages.ts'

/** A bridge that can be joined. */
export interface BridgeChoice {
  readonly bridge: string
  /** WebSocket URL of its data plane. */
  readonly data: string
  readonly modelId: string | undefined
  /** One more at every start of that bridge. */
  readonly birth: number
}

/**
 * Which of the announced bridges to join: one that serves our model, before one that we know not to (joining that one
 * still tells the device's user what is wrong); the present one as long as it is as good; then the least busy.
 */
export function chooseBridge(
  states: ReadonlyMap<string, BridgeState>,
  modelId: string,
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
