import type { BridgeState } from '../../wire/protocol/messages.ts'

/** A bridge that the device can connect to. */
export interface BridgeChoice {
  readonly bridge: string
  /** WebSocket URL of the data plane. */
  readonly data: string
  /** Model ids of its bundles; undefined: it has not announced them. */
  readonly modelIds: readonly string[] | undefined
  /** Start counter of the bridge. */
  readonly birth: number
}

/** The bridge that was chosen last. */
export interface PresentBridge {
  readonly bridge: string
  /** Its data plane is connected. */
  readonly isConnected: boolean
}

/**
 * The bridge to connect to. Bridges that serve the device's model are preferred; another is still chosen if it is the
 * only one, so that the error names the mismatch. Then the present bridge is preferred, then the least busy one.
 * @returns undefined: there is none, or the present one stays because it is connected and announces no more: its sessions
 * go on until the connection is lost
 */
export function chooseBridge(
  states: ReadonlyMap<string, BridgeState>,
  modelId: string | undefined,
  present: PresentBridge | undefined,
): BridgeChoice | undefined {
  if (present?.isConnected && states.get(present.bridge)?.state !== 'ready') return undefined
  const candidates = [...states].flatMap(([bridge, state]) =>
    state.state === 'ready' && state.data !== undefined
      ? [{ bridge, data: state.data, modelIds: servedBy(state), birth: state.birth, sessions: state.sessions ?? 0 }]
      : [],
  )
  candidates.sort(
    (a, b) =>
      Number(servesModel(b, modelId)) - Number(servesModel(a, modelId)) ||
      Number(b.bridge === present?.bridge) - Number(a.bridge === present?.bridge) ||
      a.sessions - b.sessions ||
      (a.bridge < b.bridge ? -1 : 1),
  )
  const [best] = candidates
  return best && { bridge: best.bridge, data: best.data, modelIds: best.modelIds, birth: best.birth }
}

const servedBy = ({ modelId, modelIds }: BridgeState) => modelIds ?? (modelId === undefined ? undefined : [modelId])

const servesModel = ({ modelIds }: Pick<BridgeChoice, 'modelIds'>, modelId: string | undefined): boolean =>
  modelId === undefined ? modelIds === undefined : modelIds?.includes(modelId) === true

/** Whether a session with the model would be refused there. */
export const isMismatch = ({ modelIds }: Pick<BridgeChoice, 'modelIds'>, modelId: string | undefined): boolean =>
  modelIds !== undefined && modelId !== undefined && !modelIds.includes(modelId)
