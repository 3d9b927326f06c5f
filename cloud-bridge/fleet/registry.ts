import { type Clock, nowIso } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import { DeviceState, DeviceTelemetry } from '../../core/protocol/messages.ts'
import type { Store } from '../../core/store/open-database.ts'

/** A migration. */
export const devicesTable = `CREATE TABLE devices (
  id TEXT PRIMARY KEY,
  state TEXT NOT NULL,
  birth INTEGER NOT NULL,
  last_seen TEXT NOT NULL,
  agent TEXT,
  model_id TEXT
) STRICT`

/** One line of `GET /v1/devices`. */
export interface DeviceRecord {
  readonly id: string
  readonly state: DeviceState['state']
  readonly birth: number
  /** When this bridge last heard of it, by its own clock: UTC, ISO 8601. */
  readonly lastSeen: string
  readonly agent: string | null
  readonly modelId: string | null
  /** Null where this bridge, since its start, has heard none. */
  readonly telemetry: LastTelemetry | null
}

/** What a device has said last of what it measures. */
export interface LastTelemetry extends Omit<DeviceTelemetry, 'v'> {
  /** Since it came, by this bridge's clock. */
  readonly ageS: number
}

export interface Registry {
  /** This bridge begins to listen: nobody counts as present until heard of again. */
  startOver(): void
  /**
   * A device's state as it came from the broker. A late will, or what is unreadable, changes nothing; a device that is
   * alive may count its births anew: it was installed again. Never throws: a disk that is full is no reason to end
   * everybody's sessions. @returns what it said, where that holds
   */
  heard(device: string, payload: Uint8Array): DeviceState | undefined
  /** A device's telemetry as it came from the broker; the latest is kept, in memory. What is unreadable changes nothing. */
  measured(device: string, payload: Uint8Array): void
  device(id: string): DeviceRecord | undefined
  devices(): DeviceRecord[]
  /** What was heard last of a device; undefined: nothing ever was. */
  lastSaid(device: string): Pick<DeviceState, 'state' | 'birth'> | undefined
}

/** Who is in the fleet and how they fare. */
export function createRegistry(
  store: Store,
  clock: Clock,
  logger: Logger,
  /** Something new is known of a device. */
  onChange: (device: string, what: 'state' | 'telemetry') => void = () => {},
): Registry {
  const upsert = store.prepare(`
    INSERT INTO devices (id, state, birth, last_seen, agent, model_id) VALUES (@id, @state, @birth, @lastSeen, @agent, @modelId)
    ON CONFLICT (id) DO UPDATE SET state = excluded.state, birth = excluded.birth, last_seen = excluded.last_seen,
      agent = coalesce(excluded.agent, agent), model_id = coalesce(excluded.model_id, model_id)
    WHERE excluded.birth >= devices.birth OR excluded.state <> 'lost'`)
  const latest = new Map<string, { telemetry: DeviceTelemetry; heardMs: number }>()
  /** Whose unreadable telemetry has been told of: it comes every few seconds. */
  const garbled = new Set<string>()
  const telemetryOf = (device: string): LastTelemetry | null => {
    const found = latest.get(device)
    if (!found) return null
    const { v: _, ...measured } = found.telemetry
    return { ageS: Math.round((clock.nowMs() - found.heardMs) / 100) / 10, ...measured }
  }
  const columns = 'id, state, birth, last_seen AS lastSeen, agent, model_id AS modelId'
  const list = store.prepare<[], Omit<DeviceRecord, 'telemetry'>>(`SELECT ${columns} FROM devices ORDER BY id`)
  const byId = store.prepare<[string], Omit<DeviceRecord, 'telemetry'>>(`SELECT ${columns} FROM devices WHERE id = ?`)
  const last = store.prepare<[string], Pick<DeviceState, 'state' | 'birth'>>('SELECT state, birth FROM devices WHERE id = ?')
  return {
    lastSaid: (device) => last.get(device),
    startOver() {
      store.exec("UPDATE devices SET state = 'lost' WHERE state IN ('init', 'ready', 'draining')")
    },
    heard(device, payload) {
      // An empty payload only clears what the broker retained.
      if (payload.byteLength === 0) return undefined
      const said = read(DeviceState, payload)
      if (!said) {
        logger.warn({ device, bytes: payload.byteLength }, 'unreadable device state ignored')
        return undefined
      }
      const { state, birth, agent = null, modelId = null } = said
      try {
        const { changes } = upsert.run({ id: device, state, birth, lastSeen: nowIso(), agent, modelId })
        if (changes === 0) {
          logger.info({ device, birth, state }, 'will of an earlier birth ignored')
          return undefined
        }
        logger.info({ device, birth, state }, 'device state')
      } catch (err) {
        logger.error({ err, device, birth, state }, 'device state not stored')
      }
      onChange(device, 'state')
      return said
    },
    measured(device, payload) {
      const telemetry = read(DeviceTelemetry, payload)
      if (telemetry) {
        latest.set(device, { telemetry, heardMs: clock.nowMs() })
        onChange(device, 'telemetry')
      } else if (!garbled.has(device)) {
        garbled.add(device)
        logger.warn({ device, bytes: payload.byteLength }, 'unreadable device telemetry ignored')
      }
    },
    device(id) {
      const record = byId.get(id)
      return record && { ...record, telemetry: telemetryOf(id) }
    },
    devices: () => list.all().map((record) => ({ ...record, telemetry: telemetryOf(record.id) })),
  }
}

function read<T>(schema: { parse(value: unknown): T }, payload: Uint8Array): T | undefined {
  try {
    return schema.parse(JSON.parse(Buffer.from(payload).toString()))
  } catch {
    return undefined
  }
}
