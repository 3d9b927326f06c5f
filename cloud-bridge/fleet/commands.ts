import { randomBytes } from 'node:crypto'
import { type Clock, isoOf } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import { storedJson } from '../../core/kit/store/stored-json.ts'
import { type CommandAction, CommandReply, type DeviceCommand } from '../../core/wire/protocol/commands.ts'
import type { CommandRecord } from '../../core/wire/protocol/http/devices.ts'
import { readMessage } from '../../core/wire/protocol/read-message.ts'
import type { OnUnreadable } from '../link/faults.ts'
import type { PresenceFeed } from '../presence/presence-feed.ts'

/**
 * A migration. Times are the bridge's clock. `wish` is the action as JSON. State SENT: no reply so far; the command is sent again
 * while the device is present.
 */
export const commandsTable = `CREATE TABLE commands (
  n INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  device TEXT NOT NULL,
  wish TEXT NOT NULL,
  actor TEXT NOT NULL,
  at TEXT NOT NULL,
  expires_ms INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('SENT', 'DONE', 'REFUSED', 'EXPIRED')),
  ended_at TEXT,
  reason TEXT
) STRICT;
CREATE INDEX commands_open ON commands (device, n) WHERE state = 'SENT';
CREATE INDEX commands_of ON commands (device, n);`

/** Interval of resends and of checks for expiry. */
const tickMs = 1_000
/** Retained commands that have ended, of all devices. */
const maxRetained = 10_000

export interface CommandsOptions {
  readonly store: Store
  readonly bridge: string
  readonly presence: PresenceFeed
  readonly clock: Clock
  /** UTC ms: expiry outlives this process. */
  readonly wallMs: () => number
  /** A lost message is sent again. */
  readonly publish: (device: string, message: string) => void
  readonly onChange: (device: string) => void
  readonly onUnreadable: OnUnreadable
  readonly logger: Logger
}

/** Remote commands: stored before they are sent, and resent until the device replies or the command expires. */
export interface Commands {
  /** Starts to resend. */
  start(): void
  /** @param actor the operator */
  send(device: string, action: CommandAction, actor: string, expiresS: number): CommandRecord
  /** A reply as the broker delivered it. */
  onReply(device: string, payload: Uint8Array): void
  find(id: string): CommandRecord | undefined
  /** The newest commands first. */
  of(device: string, limit: number): CommandRecord[]
  close(): Promise<void>
}

interface Row extends Omit<CommandRecord, 'wish' | 'expiresAt'> {
  readonly wish: string
  readonly expiresMs: number
}

export function createCommands(options: CommandsOptions): Commands {
  const { store, bridge, presence, clock, wallMs, publish, onChange, onUnreadable, logger } = options
  const columns = 'id, device, wish, actor, at, expires_ms AS expiresMs, state, ended_at AS endedAt, reason'
  const insert = store.prepare(
    "INSERT INTO commands (id, device, wish, actor, at, expires_ms, state) VALUES (?, ?, ?, ?, ?, ?, 'SENT')",
  )
  const deleteOld = store.prepare(
    `DELETE FROM commands WHERE state <> 'SENT' AND n <= (SELECT max(n) FROM commands) - ${maxRetained}`,
  )
  const byId = store.prepare<[string], Row>(`SELECT ${columns} FROM commands WHERE id = ?`)
  const ofDevice = store.prepare<[string, number], Row>(
    `SELECT ${columns} FROM commands WHERE device = ? ORDER BY n DESC LIMIT ?`,
  )
  const open = store.prepare<[], Row>(`SELECT ${columns} FROM commands WHERE state = 'SENT' ORDER BY device, n`)
  const openOf = store.prepare<[string], Row>(`SELECT ${columns} FROM commands WHERE state = 'SENT' AND device = ? ORDER BY n`)
  // A reply to an expired command still counts: the command was on its way.
  const end = store.prepare(
    "UPDATE commands SET state = ?, ended_at = ?, reason = ? WHERE id = ? AND device = ? AND state IN ('SENT', 'EXPIRED') AND state <> ?",
  )
  let stopTicking: (() => Promise<void>) | undefined

  function ended(row: Pick<Row, 'id' | 'device'>, state: CommandRecord['state'], reason: string | null): void {
    const { changes } = end.run(state, isoOf(wallMs()), reason, row.id, row.device, state)
    if (changes === 0) return
    logger.info({ device: row.device, command: row.id, state, reason }, 'command ended')
    onChange(row.device)
  }

  /** @param rows in the order in which they were given */
  function send(rows: readonly Row[]): void {
    for (const row of rows) {
      const { expiresAt, wish } = recordOf(row)
      if (storedJson(row.wish) === undefined) ended(row, 'REFUSED', 'its stored action is damaged')
      else if (wallMs() >= row.expiresMs)
        ended(row, 'EXPIRED', presence.isPresent(row.device) ? 'no reply' : 'the device was not connected')
      else if (presence.isPresent(row.device))
        publish(
          row.device,
          JSON.stringify({ v: 1, bridge, id: row.id, expiresAt, ...(wish as CommandAction) } satisfies DeviceCommand),
        )
    }
  }

  const tryToSend = (read: () => readonly Row[]) => tryOrLog(logger, 'commands not read or stored', () => send(read()))

  const unsubscribe = presence.subscribe((event) => {
    if (event.kind === 'state' && presence.isPresent(event.device)) tryToSend(() => openOf.all(event.device))
  })

  return {
    start() {
      stopTicking ??= repeatEvery(clock, tickMs, () => tryToSend(() => open.all()))
    },
    send(device, action, actor, expiresS) {
      const id = randomBytes(8).toString('hex')
      const nowMs = wallMs()
      store
        .transaction(() => {
          insert.run(id, device, JSON.stringify(action), actor, isoOf(nowMs), Math.round(nowMs + expiresS * 1_000))
          deleteOld.run()
        })
        .immediate()
      logger.info({ device, command: id, type: action.type, actor }, 'command sent')
      const row = byId.get(id)!
      send([row])
      onChange(device)
      return recordOf(row)
    },
    onReply(device, payload) {
      const read = readMessage(CommandReply, payload)
      if (read.kind === 'unreadable') return onUnreadable(device, 'replies', read.reason)
      const reply = read.message
      if (reply.bridge !== bridge) return
      const states = { done: 'DONE', refused: 'REFUSED', expired: 'EXPIRED' } as const
      tryOrLog(logger, 'command reply not stored', () =>
        ended({ id: reply.id, device }, states[reply.outcome], reply.reason ?? null),
      )
    },
    find(id) {
      const row = byId.get(id)
      return row && recordOf(row)
    },
    of: (device, limit) => ofDevice.all(device, limit).map(recordOf),
    async close() {
      unsubscribe()
      await stopTicking?.()
    },
  }
}

const recordOf = ({ wish, expiresMs, ...row }: Row) => ({
  ...row,
  wish: (storedJson(wish) as CommandAction | undefined) ?? { type: 'damaged' },
  expiresAt: isoOf(expiresMs),
})
