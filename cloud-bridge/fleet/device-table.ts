import type { Store } from '../../core/kit/store/open-database.ts'
import type { Device } from '../../core/wire/protocol/http/devices.ts'
import { type DeviceState, deviceStates } from '../../core/wire/protocol/messages.ts'

/** A migration. */
export const devicesTable = `CREATE TABLE devices (
  id TEXT PRIMARY KEY,
  state TEXT NOT NULL,
  birth INTEGER NOT NULL,
  last_seen TEXT NOT NULL,
  agent TEXT,
  model_id TEXT
) STRICT`

/** A later migration: JSON. */
export const devicesComputing = 'ALTER TABLE devices ADD COLUMN computing TEXT'

export interface StoredDevice extends Pick<Device, 'id' | 'agent' | 'modelId' | 'computing'> {
  readonly state: DeviceState['state']
  readonly birth: number
  /** When this bridge last received the device's state, by its own clock: UTC, ISO 8601. */
  readonly lastSeen: string
}

type Row = Omit<StoredDevice, 'computing'> & { readonly computing: string | null }

type StateCounts = Record<DeviceState['state'], number>

/**
 * The devices that have published a state: in memory, and on disk at each `write`. A whole fleet that reconnects costs one
 * commit at a time then; what a crash loses, devices publish again.
 */
export class DeviceTable {
  readonly #store: Store
  readonly #upsert
  readonly #remove
  readonly #devices: Map<string, StoredDevice>
  /** Changed since the last `write`. */
  readonly #unstored = new Set<string>()
  readonly #counts: StateCounts

  /** @param store must have `devicesTable` and `devicesComputing` */
  constructor(store: Store) {
    this.#store = store
    this.#upsert = store.prepare<Row>(`INSERT OR REPLACE INTO devices (id, state, birth, last_seen, agent, model_id, computing)
      VALUES (@id, @state, @birth, @lastSeen, @agent, @modelId, @computing)`)
    this.#remove = store.prepare<[string]>('DELETE FROM devices WHERE id = ?')
    const all = store.prepare<[], Row>(
      'SELECT id, state, birth, last_seen AS lastSeen, agent, model_id AS modelId, computing FROM devices',
    )
    this.#devices = new Map(
      all.all().map((row) => [row.id, { ...row, computing: row.computing === null ? null : JSON.parse(row.computing) }]),
    )
    this.#counts = Object.fromEntries(deviceStates.map((state) => [state, 0])) as StateCounts
    for (const { state } of this.#devices.values()) this.#counts[state] += 1
  }

  get(id: string): StoredDevice | undefined {
    return this.#devices.get(id)
  }

  get size(): number {
    return this.#devices.size
  }

  /** Ordered by id. */
  list(): StoredDevice[] {
    return [...this.#devices.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  ids(): IterableIterator<string> {
    return this.#devices.keys()
  }

  counts(): StateCounts {
    return { ...this.#counts }
  }

  put(device: StoredDevice): void {
    const before = this.#devices.get(device.id)
    if (before) this.#counts[before.state] -= 1
    this.#counts[device.state] += 1
    this.#devices.set(device.id, device)
    this.#unstored.add(device.id)
  }

  remove(id: string): void {
    const before = this.#devices.get(id)
    if (!before) return
    this.#counts[before.state] -= 1
    this.#devices.delete(id)
    this.#unstored.add(id)
  }

  /** Stores what has changed since, in one commit. After an error the next call tries again. @throws SqliteError */
  write(): void {
    if (this.#unstored.size === 0) return
    this.#store.transaction(() => {
      for (const id of this.#unstored) {
        const device = this.#devices.get(id)
        if (device) this.#upsert.run({ ...device, computing: device.computing && JSON.stringify(device.computing) })
        else this.#remove.run(id)
      }
    })()
    this.#unstored.clear()
  }
}
