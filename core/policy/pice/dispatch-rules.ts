import { type ExpansionTerms, type FleetQueue, keepsBudgets, worthTaking } from './fleet-queue.ts'
import { defaultBatchTerms, nextBatch } from './next-batch.ts'
import type { ExpandingDevice, WaitingExpansion } from './state.ts'

/** What decides about a batch beside the expansions that wait. */
export interface BatchState {
  /** The idle device; undefined: its speed is unknown. */
  readonly device: ExpandingDevice | undefined
  /** Number of devices that could take expansions now, this one included. */
  readonly idleDevices: number
  /** All devices whose speed is known, on the terms of what waits. */
  readonly fleet: FleetQueue
}

/** The expansions that an idle device takes as one job; none: other devices finish them sooner. */
export type DispatchRule = <W extends WaitingExpansion>(waiting: readonly W[], state: BatchState) => W[]

/**
 * A batch of like lengths (PICE, Algorithm 1) of those that other devices would not finish much sooner, and no more than the device
 * finishes in time.
 * @param maxSketches in a batch
 */
export const batchByLength =
  (maxSketches: number): DispatchRule =>
  (waiting, { device, idleDevices, fleet }) => {
    const terms = { ...defaultBatchTerms, maxSketches }
    if (!device) return nextBatch(waiting, terms, idleDevices)
    return nextBatch(worthTaking(device, fleet, waiting, terms.maxWaitS), terms, idleDevices, keepsBudgets(device, fleet.terms))
  }

/** An expansion that waits, as far as the terms of a batch depend on it. */
export interface WaitingSketch {
  readonly expectedTokens: number
  /** Sentences that are missing, and expansions of each. */
  readonly sentences: number
  readonly candidates: number
  readonly promptTokens: number
}

/** The terms on which a batch is chosen and its time predicted. @param expansions at least one */
export function termsOf(expansions: readonly WaitingSketch[]): ExpansionTerms & { readonly promptTokens: number } {
  const sum = (numberOf: (expansion: WaitingSketch) => number) =>
    expansions.reduce((total, expansion) => total + numberOf(expansion), 0)
  return {
    tokensPerSentence: sum(({ expectedTokens }) => expectedTokens) / sum(({ sentences }) => sentences),
    candidates: Math.max(...expansions.map(({ candidates }) => candidates)),
    promptTokens: sum(({ promptTokens }) => promptTokens) / expansions.length,
  }
}

/**
 * Sketches that may wait for each device where plans count on so many: those that were planned one after another may be written at
 * once, and to refuse one then wastes what the LLM has written.
 */
export const writtenPerDevice = (planned: number): number => 2 * planned

/** Whether one more sketch may wait. @param idle devices that take one now @param maxPerDevice that may wait for each device */
export const hasRoom = (waiting: number, idle: number, devices: number, maxPerDevice: number): boolean =>
  waiting < idle + maxPerDevice * devices
