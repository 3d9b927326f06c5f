import type { BridgeState, DeviceState } from '../../wire/protocol/messages.ts'

/**
 * What to do when the broker delivers the device's own retained state. A late will, or the state of an earlier start, may
 * have replaced the present one; a higher birth means that a second agent runs under the same device id.
 * @param birth of this start of the agent
 */
export function onOwnState(retained: Pick<DeviceState, 'state' | 'birth'>, birth: number): 'republish' | 'conflict' | 'ignore' {
  if (retained.birth < birth || retained.state === 'lost') return 'republish'
  return retained.birth > birth ? 'conflict' : 'ignore'
}

/** Whether a bridge's state is the late will of an earlier start. A lower birth alone proves nothing: a bridge may have lost its store. */
export function isLateWill(state: Pick<BridgeState, 'state' | 'birth'>, lastBirth: number | undefined): boolean {
  return state.state === 'lost' && state.birth < (lastBirth ?? 0)
}
