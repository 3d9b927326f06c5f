import type { Store } from '../../core/kit/store/open-database.ts'
import type { LabelChange } from '../../core/wire/protocol/http/devices.ts'
import { maxLabels } from '../../core/wire/protocol/http/labels.ts'

/** A migration: the labels that operators give devices. Devices do not know their labels. */
export const labelsTable = `CREATE TABLE labels (
  device TEXT NOT NULL,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (device, key)
) STRICT, WITHOUT ROWID`

export type LabelSet = Readonly<Record<string, string>>

export interface DeviceLabels {
  of(device: string): LabelSet
  all(): ReadonlyMap<string, LabelSet>
  /** @returns the new labels; undefined: there would be too many, and nothing changes */
  change(device: string, change: LabelChange): LabelSet | undefined
  removeAll(device: string): void
}

/** The labels of devices, on disk. */
export function createLabels(store: Store): DeviceLabels {
  const ofDevice = store.prepare<[string], { key: string; value: string }>(
    'SELECT key, value FROM labels WHERE device = ? ORDER BY key',
  )
  const ofAll = store.prepare<[], { device: string; key: string; value: string }>(
    'SELECT device, key, value FROM labels ORDER BY device, key',
  )
  const put = store.prepare('INSERT OR REPLACE INTO labels (device, key, value) VALUES (?, ?, ?)')
  const drop = store.prepare('DELETE FROM labels WHERE device = ? AND key = ?')
  const dropAll = store.prepare('DELETE FROM labels WHERE device = ?')
  const of = (device: string): LabelSet => Object.fromEntries(ofDevice.all(device).map(({ key, value }) => [key, value]))
  const change = store.transaction((device: string, { set, unset }: LabelChange) => {
    const keys = new Set([...Object.keys(of(device)), ...Object.keys(set)])
    for (const key of unset) keys.delete(key)
    if (keys.size > maxLabels) return undefined
    for (const [key, value] of Object.entries(set)) put.run(device, key, value)
    for (const key of unset) drop.run(device, key)
    return of(device)
  })
  return {
    of,
    all() {
      const found = new Map<string, Record<string, string>>()
      for (const { device, key, value } of ofAll.all()) found.set(device, { ...found.get(device), [key]: value })
      return found
    },
    change: (device, labels) => change.immediate(device, labels),
    removeAll: (device) => void dropAll.run(device),
  }
}
