import { isDeepStrictEqual } from 'node:util'
import { type Clock, nowIso } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import { DeviceState, DeviceTelemetry } from '../../core/protocol/messages.ts'
import { readMessage } from '../../core/protocol/read-message.ts'
import type { Store } from '../../core/store/open-database.ts'
import type { OnUnreadable } from '../link/faults.ts'

/** A migration. */
export const devicesTable = `CREATE TABLE devices (
  id TEXT PRIMARY KEY,
  state TEXT NOT NULL,
  birth INTEGER NOT NULL,
  last_seen TEXT NOT NULL,
  agent TEXT,
  model_id TEXT
) STRICT`

/** Heartbeats in a row that may be missed; brokers take one and a half keepalives to notice the same. */
const mostMissed = 3
const storeEveryMs = 5 * 60_000

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
export interface LastTelemetry extends Omit<DeviceTelemetry, 'v' | 'replayed'> {
  /** Since it came, by this bridge's clock. */
  readonly ageS: number
}

export interface Registry {
  /** This bridge begins to listen: nobody counts as present until heard of again. */
  markAllLost(): void
  /**
   * A device's state as it came from the broker. A late will, or what is unreadable, changes nothing; a device that is
   * alive may count its births anew: it was installed again. Never throws: a disk that is full is no reason to end
   * everybody's sessions. @returns what it said, where that holds and is news: a heartbeat is none
   */
  onState(device: string, payload: Uint8Array): DeviceState | undefined
  /**
   * Calls devices lost whose heartbeats have stopped: whose will was never said, because the broker went down with them.
   * @returns what they would have said
   */
  expireHeartbeats(): { readonly device: string; readonly state: DeviceState }[]
  /** Nobody could be heard until now: that they were silent says nothing, and what they say next is news. */
  onBrokerLost(): void
  /**
   * A device's telemetry as it came from the broker; the latest is kept, in memory: not one that is replayed. What is unreadable
   * changes nothing. @returns what could be read
   */
  onTelemetry(device: string, payload: Uint8Array): DeviceTelemetry | undefined
  device(id: string): DeviceRecord | undefined
  devices(): DeviceRecord[]
  /** What was heard last of a device; undefined: nothing ever was. */
  lastState(device: string): Pick<DeviceState, 'state' | 'birth'> | undefined
}

/** Who is in the fleet and how they fare. */
export function createRegistry(
  store: Store,
  clock: Clock,
  logger: Logger,
  onUnreadable: OnUnreadable,
  /** Something new is known of a device. */
  onChange: (device: string, what: 'state' | 'telemetry') => void = () => {},
): Registry {
  const upsert = store.prepare(`
    INSERT INTO devices (id, state, birth, last_seen, agent, model_id) VALUES (@id, @state, @birth, @lastSeen, @agent, @modelId)
    ON CONFLICT (id) DO UPDATE SET state = excluded.state, birth = excluded.birth, last_seen = excluded.last_seen,
      agent = coalesce(excluded.agent, agent), model_id = coalesce(excluded.model_id, model_id)
    WHERE excluded.birth >= devices.birth OR excluded.state <> 'lost'`)
  const sawAgain = store.prepare('UPDATE devices SET last_seen = ? WHERE id = ?')
  /** Who is present. */
  const present = new Map<string, Present>()
  const latest = new Map<string, { telemetry: DeviceTelemetry; heardMs: number }>()
  const telemetryOf = (device: string): LastTelemetry | null => {
    const found = latest.get(device)
    if (!found) return null
    const { v: _, replayed: __, ...measured } = found.telemetry
    return { ageS: Math.round((clock.nowMs() - found.heardMs) / 100) / 10, ...measured }
  }
  const columns = 'id, state, birth, last_seen AS lastSeen, agent, model_id AS modelId'
  const list = store.prepare<[], Omit<DeviceRecord, 'telemetry'>>(`SELECT ${columns} FROM devices ORDER BY id`)
  const byId = store.prepare<[string], Omit<DeviceRecord, 'telemetry'>>(`SELECT ${columns} FROM devices WHERE id = ?`)
  const last = store.prepare<[string], Pick<DeviceState, 'state' | 'birth'>>('SELECT state, birth FROM devices WHERE id = ?')
  const recordOf = (stored: Omit<DeviceRecord, 'telemetry'>): DeviceRecord => ({
    ...stored,
    lastSeen: present.get(stored.id)?.heardAt ?? stored.lastSeen,
    telemetry: telemetryOf(stored.id),
  })
  return {
    lastState: (device) => last.get(device),
    markAllLost() {
      store.exec("UPDATE devices SET state = 'lost' WHERE state IN ('init', 'ready', 'draining')")
    },
    onState(device, payload) {
      // An empty payload only clears what the broker retained.
      if (payload.byteLength === 0) return undefined
      const read = readMessage(DeviceState, payload)
      if (read.kind === 'unreadable') {
        onUnreadable(device, 'state', read.reason)
        return undefined
      }
      const said = read.message
      const before = present.get(device)
      if (before && !before.wasUnheard && isHeartbeat(before.said, said)) {
        seen(device, before)
        return undefined
      }
      const { state, birth, agent = null, modelId = null } = said
      const [lastSeen, nowMs] = [nowIso(), clock.nowMs()]
      try {
        const { changes } = upsert.run({ id: device, state, birth, lastSeen, agent, modelId })
        if (changes === 0) {
          logger.info({ device, birth, state }, 'will of an earlier birth ignored')
          return undefined
        }
        logger.info({ device, birth, state }, 'device state')
        if (isPresent(said)) present.set(device, { said, heardMs: nowMs, heardAt: lastSeen, storedMs: nowMs })
        else present.delete(device)
      } catch (err) {
        logger.error({ err, device, birth, state }, 'device state not stored')
        // Whatever it says next is news, then.
        present.delete(device)
      }
      onChange(device, 'state')
      return said
    },
    expireHeartbeats() {
      const nowMs = clock.nowMs()
      const silent = [...present].filter(
        ([, { said, heardMs }]) => said.heartbeatS !== undefined && nowMs - heardMs > mostMissed * said.heartbeatS * 1_000,
      )
      return silent.map(([device, { said, heardAt }]) => {
        present.delete(device)
        const state: DeviceState = { ...said, state: 'lost' }
        logger.warn({ device, birth: said.birth, lastSeen: heardAt }, 'device silent: its heartbeats have stopped')
        const { birth, agent = null, modelId = null } = said
        guarded(() => upsert.run({ id: device, state: 'lost', birth, lastSeen: heardAt, agent, modelId }), device)
        onChange(device, 'state')
        return { device, state }
      })
    },
    onBrokerLost() {
      const heardMs = clock.nowMs()
      for (const [device, known] of present) present.set(device, { ...known, heardMs, wasUnheard: true })
    },
    onTelemetry(device, payload) {
      const read = readMessage(DeviceTelemetry, payload)
      if (read.kind === 'unreadable') {
        onUnreadable(device, 'telemetry', read.reason)
        return undefined
      }
      const telemetry = read.message
      if (telemetry.replayed !== true) {
        latest.set(device, { telemetry, heardMs: clock.nowMs() })
        onChange(device, 'telemetry')
      }
      return telemetry
    },
    device(id) {
      const record = byId.get(id)
      return record && recordOf(record)
    },
    devices: () => list.all().map(recordOf),
  }

  /** A heartbeat costs a commit but now and then. */
  function seen(device: string, known: { said: DeviceState; storedMs: number }): void {
    const [heardMs, heardAt] = [clock.nowMs(), nowIso()]
    const isDue = heardMs - known.storedMs >= storeEveryMs
    present.set(device, { said: known.said, heardMs, heardAt, storedMs: isDue ? heardMs : known.storedMs })
    if (isDue) guarded(() => sawAgain.run(heardAt, device), device)
  }

  function guarded(write: () => unknown, device: string): void {
    try {
      write()
    } catch (err) {
      logger.error({ err, device }, 'device state not stored')
    }
  }
}

/** What a device said last, when that was, and when it was last written down. */
interface Present {
  readonly said: DeviceState
  readonly heardMs: number
  readonly heardAt: string
  readonly storedMs: number
  /** It could not be heard since. */
  readonly wasUnheard?: true
}

const isPresent = ({ state }: DeviceState) => state !== 'lost' && state !== 'disconnected'

/** The same again, but for the time. Whoever has connected again, or may have, is news: what was sent to it in between is lost. */
function isHeartbeat({ at: _, ...before }: DeviceState, { at: __, ...now }: DeviceState): boolean {
  return now.connection !== undefined && isDeepStrictEqual(before, now)
}
