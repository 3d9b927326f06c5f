import type { FleetRow, FleetRowEvent, FleetSummary } from '../../core/wire/protocol/http/devices.ts'
import type { PageApi } from './api.ts'
import { ViewModel } from './model.ts'

/** Every device of the fleet as the bridge last described it. */
export class FleetModel extends ViewModel {
  readonly #api: PageApi
  #rows = new Map<string, FleetRow>()
  /** When each row came, by this page's clock: until then, `seenS` was as the row says. */
  readonly #cameMs = new Map<string, number>()
  bridge: Omit<FleetSummary, 'devices'> | undefined
  /** Why the rows may be out of date. */
  problem: string | undefined

  constructor(api: PageApi) {
    super()
    this.#api = api
  }

  get rows(): Iterable<FleetRow> {
    return this.#rows.values()
  }

  get size(): number {
    return this.#rows.size
  }

  /** Seconds since the bridge last heard of the device. */
  seenS({ id, seenS }: FleetRow): number | null {
    return seenS === null ? null : seenS + (performance.now() - (this.#cameMs.get(id) ?? 0)) / 1_000
  }

  /** Follows the fleet. After a lost connection all of it is read again, so that no change is missed. */
  follow(signal: AbortSignal): Promise<void> {
    return this.#api.follow(
      async (onOpen) => {
        const { devices, ...bridge } = await this.#api.get<FleetSummary>('/v1/fleet/summary', signal)
        this.bridge = bridge
        this.#rows = new Map()
        for (const row of devices) this.#put(row.id, row)
        this.changed()
        for await (const { device, row } of this.#api.events<FleetRowEvent>('/v1/fleet/rows', signal, onOpen)) {
          this.#put(device, row)
          this.changed()
        }
        return false
      },
      (problem) => {
        this.problem = problem
        this.changed()
      },
      signal,
    )
  }

  #put(id: string, row: FleetRow | null): void {
    if (row === null) this.#rows.delete(id)
    else this.#rows.set(id, row)
    this.#cameMs.set(id, performance.now())
  }
}
