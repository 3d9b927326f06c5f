/**
 * At a bridge. 'full': by the LLM alone; 'sketch': the LLM sketches and devices expand, if the bridge can; 'auto': whichever
 * the plan chooses (PICE Eq. 2).
 */
export const bridgeModes = ['auto', 'sketch', 'full'] as const
export type BridgeMode = (typeof bridgeModes)[number]
export const isBridgeMode = (mode: string | undefined): mode is BridgeMode => bridgeModes.some((each) => each === mode)

/**
 * At a device (DiSCo). 'private': HAT or the small model, nothing else is contacted; 'local': the small model alone; 'cloud':
 * a server alone; 'sketch': the bridge, whose model may sketch what other devices expand (PICE); 'cheap': whichever costs less;
 * 'fast': both at once; 'auto': small model and the best of server, bridge's plan and HAT, within the budget (DiSCo Algorithms 2, 3).
 */
export const deviceModes = ['private', 'local', 'cloud', 'sketch', 'cheap', 'fast', 'auto'] as const
export type DeviceMode = (typeof deviceModes)[number]
export const isDeviceMode = (mode: string | undefined): mode is DeviceMode => deviceModes.some((each) => each === mode)

export type AnswerMode = BridgeMode | DeviceMode
export const answerModes = [
  'private',
  'local',
  'cloud',
  'cheap',
  'fast',
  'auto',
  'sketch',
  'full',
] as const satisfies readonly AnswerMode[]
