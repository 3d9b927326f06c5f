import { ofLeastServed } from '../fairness/in-turns.ts'
import { ServedAmounts } from '../fairness/served.ts'
import type { AbleDevices, FleetSnapshot } from './able-devices.ts'
import { type DispatchRule, termsOf } from './dispatch-rules.ts'
import type { FleetDevice } from './fleet-device.ts'
import { FleetQueue, fits } from './fleet-queue.ts'
import type { PendingSketch } from './pending-sketch.ts'
import type { WaitingExpansion } from './state.ts'

/** Sketches that a device expands together. */
export interface SketchBatch {
  readonly device: FleetDevice
  readonly sketches: readonly PendingSketch[]
}

interface Waiting extends WaitingExpansion {
  readonly client: string
  readonly pending: PendingSketch
}

/** The fleet as a device takes its batch. */
interface DispatchFleet {
  readonly snapshot: FleetSnapshot
  readonly queue: FleetQueue
}

/** Which free devices take which of the sketches that wait, clients in turn. Mutable. */
export class SketchBatches {
  readonly #rule: DispatchRule
  readonly #able: AbleDevices
  readonly #maxBytes: number
  /** Sketches that devices have taken. */
  readonly #served = new ServedAmounts()

  /** @param maxBytes of the sketches of one batch */
  constructor(rule: DispatchRule, able: AbleDevices, maxBytes: number) {
    this.#rule = rule
    this.#able = able
    this.#maxBytes = maxBytes
  }

  /** Each batch must have become a job of its device before the next is asked for. @param pending all that waits */
  *ofAll(pending: readonly PendingSketch[], nowMs: number): Generator<SketchBatch, void> {
    // What a device takes removes it from those that are free.
    const free = [...this.#able.free]
    const mayDiffer = pending.some(({ tried }) => tried.size > 0)
    let waiting = pending.map((each): Waiting => ({ ...expansionOf(each, nowMs), client: each.client, pending: each }))
    /** Hold until a device takes something. */
    let fleet: DispatchFleet | undefined
    /** Devices that leave all that waits to others; those that are like them do so, too. */
    const unwilling = new Set<object>()
    for (const [at, device] of free.entries()) {
      if (waiting.length === 0) return
      const { alike } = device
      if (alike && unwilling.has(alike)) continue
      fleet ??= this.#fleetFor(waiting, nowMs)
      const batch = this.#inTurn(device, waiting, free.length - at, fleet)
      if (batch.length === 0) {
        if (alike && !mayDiffer) unwilling.add(alike)
        continue
      }
      for (const { client } of batch) this.#served.add(client, 1)
      yield { device, sketches: batch.map((each) => each.pending) }
      const taken = new Set(batch)
      waiting = waiting.filter((each) => !taken.has(each))
      fleet = undefined
      unwilling.clear()
    }
  }

  #fleetFor(waiting: readonly Waiting[], nowMs: number): DispatchFleet {
    const snapshot = this.#able.snapshot(nowMs)
    return { snapshot, queue: new FleetQueue(snapshot.devices, termsOf(waiting.map(({ pending }) => pending.shape))) }
  }

  /** Of the clients of which devices have taken the fewest sketches while they waited, unless this device is not for theirs. */
  #inTurn(device: FleetDevice, waiting: readonly Waiting[], idle: number, fleet: DispatchFleet): readonly Waiting[] {
    const next = ofLeastServed(waiting, this.#served.ofThose(waiting))
    const batch = this.#batchFor(device, next, idle, fleet)
    return batch.length > 0 || next.length === waiting.length ? batch : this.#batchFor(device, waiting, idle, fleet)
  }

  #batchFor(
    device: FleetDevice,
    waiting: readonly Waiting[],
    idleDevices: number,
    { snapshot, queue }: DispatchFleet,
  ): readonly Waiting[] {
    const eligible = waiting.filter(({ pending }) => this.#mayTake(device, pending))
    const suspect = eligible.find(({ pending }) => pending.isSuspect)
    if (suspect) return [suspect]
    let bytes = 0
    return this.#rule(eligible, { device: snapshot.entryOf(device), idleDevices, fleet: queue }).filter(({ pending }) => {
      bytes += pending.asked.bytes
      return bytes <= this.#maxBytes
    })
  }

  /** Not one whose context is too short. A device that failed at it, or vanished with it, takes it only if there is no other. */
  #mayTake(device: FleetDevice, { tried, shape }: PendingSketch): boolean {
    if (device.known && !device.known.models.some((model) => fits(model, termsOf([shape])))) return false
    if (!tried.has(device)) return true
    for (const other of this.#able.all) if (!tried.has(other)) return false
    return true
  }
}

export function expansionOf({ asked, expectedTokens, sinceMs }: PendingSketch, nowMs: number): WaitingExpansion {
  const { id, budgetMs } = asked
  const waitedS = (nowMs - sinceMs) / 1_000
  return { id, expectedTokens, waitedS, ...(budgetMs === undefined ? {} : { budgetS: budgetMs / 1_000 - waitedS }) }
}
