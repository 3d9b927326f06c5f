import { deviceCount, type FleetView } from './state.ts'

/** Fewer lines are no work for a device of its own. */
const minLines = 2
/** A sketch that is complete sooner goes out in one piece. */
const minLeftS = 0.3

/** How far the LLM is with a sketch. Lengths in its tokens. */
export interface WritingProgress {
  /** Expected of the whole, and seconds that it takes. */
  readonly sketchTokens: number
  readonly sketchS: number
  readonly writtenTokens: number
  /** Complete lines that no device has. */
  readonly lines: number
}

/**
 * Whether devices begin with the complete lines of a sketch while the LLM writes the others: where one is idle, another one is for the
 * lines that follow, and no sketch waits. Otherwise the lines together take a device hardly longer than some of them.
 * @param view looked at only if the rest of it holds
 */
export function mayBeginEarly({ sketchTokens, sketchS, writtenTokens, lines }: WritingProgress, view: () => FleetView): boolean {
  if (lines < minLines || sketchS * (1 - writtenTokens / sketchTokens) < minLeftS) return false
  const { devices, waiting } = view()
  return waiting.length === 0 && deviceCount(devices.filter(({ busyS }) => busyS === 0)) >= 2
}
