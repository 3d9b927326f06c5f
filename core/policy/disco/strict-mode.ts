import type { DeviceMode } from '../../kit/base/answer-modes.ts'

/** Modes in which no server gets the text, the strictest last: with the hidden states to a bridge, and with nothing. */
export const strictModes = ['private', 'local'] as const satisfies readonly DeviceMode[]
export type StrictMode = (typeof strictModes)[number]

/** Whether a request in `mode` shows more than one in the strict mode would. @param isPrivate no text may leave, whatever the mode */
export function showsMore(mode: DeviceMode, isPrivate: boolean, strict: StrictMode): boolean {
  if (mode === 'local') return false
  return strict === 'local' || !(mode === 'private' || isPrivate)
}

/** The mode in which a device answers what a strict mode is demanded for: a stricter one, where it lacks what the mode needs. */
export const strictEnough = (strict: StrictMode, has: { readonly hat: boolean; readonly smallModel: boolean }): StrictMode =>
  strict === 'private' && !has.hat && has.smallModel ? 'local' : strict
