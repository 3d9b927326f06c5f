import { firstCome } from '../../core/policy/pice/baselines.ts'
import type { ExpansionTerms } from '../../core/policy/pice/fleet-queue.ts'
import { defaultBatchTerms, nextBatch } from '../../core/policy/pice/next-batch.ts'
import type { ExpandingDevice, WaitingExpansion } from '../../core/policy/pice/state.ts'
import { takeBatch } from '../../core/policy/pice/take-batch.ts'
import type { BridgeConfig } from '../config.ts'

/** What decides about a batch beside the expansions that wait. */
export interface DispatchState {
  /** The idle device; undefined: its speed is unknown. */
  readonly device: ExpandingDevice | undefined
  /** Number of devices that could take expansions now, this one included. */
  readonly idleDevices: number
  /** All devices whose speed is known. */
  readonly devices: readonly ExpandingDevice[]
  readonly terms: ExpansionTerms
}

/** The expansions that an idle device takes as one job; none: other devices finish them sooner. */
export type DispatchRule = <W extends WaitingExpansion>(waiting: readonly W[], state: DispatchState) => W[]

/** @param maxSketches in a batch */
export const dispatchRule = (policy: BridgeConfig['sketchPolicy'], maxSketches: number): DispatchRule =>
  policy === 'static' ? inOrder(maxSketches) : byLength(maxSketches)

const byLength =
  (maxSketches: number): DispatchRule =>
  (waiting, { device, idleDevices, devices, terms }) => {
    const batchTerms = { ...defaultBatchTerms, maxSketches }
    return device
      ? takeBatch(device, devices, waiting, idleDevices, { ...batchTerms, ...terms })
      : nextBatch(waiting, batchTerms, idleDevices)
  }

const inOrder =
  (maxSketches: number): DispatchRule =>
  (waiting, { idleDevices }) =>
    firstCome(waiting, Math.min(maxSketches, Math.ceil(waiting.length / idleDevices)))
