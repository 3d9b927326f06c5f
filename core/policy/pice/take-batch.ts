import { type FleetQueue, keepsBudgets, worthTaking } from './fleet-queue.ts'
import { type BatchTerms, nextBatch } from './next-batch.ts'
import type { ExpandingDevice, WaitingExpansion } from './state.ts'

/**
 * What an idle device takes of the waiting expansions: a batch of like lengths (PICE, Algorithm 1) of those that other devices
 * would not finish much sooner, and no more than it finishes in time.
 * @param fleet all devices that expand, this one included, with what they are busy with
 * @param idleDevices that could take expansions now, this one included
 * @returns empty if nothing waits, or faster devices finish it sooner
 */
export function takeBatch<W extends WaitingExpansion>(
  device: ExpandingDevice,
  fleet: FleetQueue,
  waiting: readonly W[],
  idleDevices: number,
  terms: BatchTerms,
): W[] {
  const worth = worthTaking(device, fleet, waiting, terms.maxWaitS)
  return nextBatch(worth, terms, idleDevices, keepsBudgets(device, fleet.terms))
}
