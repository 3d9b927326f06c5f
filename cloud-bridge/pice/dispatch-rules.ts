import { firstCome } from '../../core/policy/pice/baselines.ts'
import { defaultBatchTerms, nextBatch } from '../../core/policy/pice/next-batch.ts'
import type { WaitingExpansion } from '../../core/policy/pice/state.ts'
import type { BridgeConfig } from '../config.ts'

/**
 * The expansions that an idle device takes.
 * @param idleDevices that could take expansions now, this one included
 */
export type DispatchRule = <W extends WaitingExpansion>(waiting: readonly W[], idleDevices: number) => W[]

/** @param maxSketches in a batch */
export function dispatchRule(policy: BridgeConfig['sketchPolicy'], maxSketches: number): DispatchRule {
  const share = (waiting: readonly WaitingExpansion[], idleDevices: number) =>
    Math.min(maxSketches, Math.ceil(waiting.length / idleDevices))
  return policy === 'static'
    ? (waiting, idleDevices) => firstCome(waiting, share(waiting, idleDevices))
    : (waiting, idleDevices) => nextBatch(waiting, { ...defaultBatchTerms, maxSketches }, idleDevices)
}
