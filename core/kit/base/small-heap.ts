import { setFlagsFromString } from 'node:v8'

/**
 * Keeps the young generation of the JavaScript heap as small as it begins, for processes that are mostly idle: otherwise it
 * grows to 16 MB while modules load, and stays so. Collections become more frequent and as much shorter.
 */
export function keepYoungGenerationSmall(): void {
  setFlagsFromString('--semi-space-growth-factor=1')
}

/** How far the heap may grow beyond what was in use after the last full collection. */
const growingPercent = 30

/**
 * Collects garbage before the JavaScript heap has grown by a third of what is in use, for processes that hold much for long:
 * by default V8 lets it grow up to fourfold on a machine with much memory.
 */
export function keepHeapCompact(): void {
  setFlagsFromString(`--heap-growing-percent=${growingPercent}`)
}
