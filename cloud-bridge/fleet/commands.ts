import { randomBytes } from 'node:crypto'
import type { Clock } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import { type Command, type CommandAction, CommandReply } from '../../core/protocol/commands.ts'
import { readMessage } from '../../core/protocol/read-message.ts'
import type { Store } from '../../core/store/open-database.ts'
import type { OnUnreadable } from '../link/faults.ts'

/** A migration. Times are the bridge's own. */
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

/** SENT: on its way, or waiting for its device to come back. */
export const commandStates = ['SENT', 'DONE', 'REFUSED', 'EXPIRED'] as const
export type CommandState = (typeof commandStates)[number]

export interface CommandRecord {
  readonly id: string
  readonly device: string
  readonly wish: CommandAction
  /** Who wanted it. */
  readonly actor: string
  readonly at: string
  readonly expiresAt: string
  readonly state: CommandState
  readonly endedAt: string | null
  /** Why it was refused, or what there is to say. */
  readonly reason: string | null
}

/** What was not answered is said again so often, and expiry looked at. */
const tickMs = 1_000
/** Ended ones that are remembered, of all devices. */
const remembered = 10_000

export interface CommandsOptions {
  readonly store: Store
  readonly bridge: string
  readonly clock: Clock
  /** UTC ms: expiry outlives this process. */
  readonly wallMs: () => number
  /** Whatever is lost is said again. */
  readonly publish: (device: string, message: string) => void
  readonly onChange: (device: string) => void
  readonly onUnreadable: OnUnreadable
  readonly logger: Logger
}

/** Orders to devices: on disk before they are sent, said again until answered, never after they have expired. */
export interface Commands {
  start(): void
  send(device: string, wish: CommandAction, actor: string, expiresS: number): CommandRecord
  /** A device is there, or not any more. */
  setPresence(device: string, isPresent: boolean): void
  /** A reply as it came from the broker. */
  onReply(device: string, payload: Uint8Array): void
  find(id: string): CommandRecord | undefined
  /** The newest first. */
  of(device: string, limit: number): CommandRecord[]
  close(): Promise<void>
}

interface Row extends Omit<CommandRecord, 'wish' | 'expiresAt'> {
  readonly wish: string
  readonly expiresMs: number
}

export function createCommands(options: CommandsOptions): Commands {
  const { store, bridge, clock, wallMs, publish, onChange, onUnreadable, logger } = options
  const columns = 'id, device, wish, actor, at, expires_ms AS expiresMs, state, ended_at AS endedAt, reason'
  const insert = store.prepare(
    "INSERT INTO commands (id, device, wish, actor, at, expires_ms, state) VALUES (?, ?, ?, ?, ?, ?, 'SENT')",
  )
  const forget = store.prepare(
    `DELETE FROM commands WHERE state <> 'SENT' AND n <= (SELECT max(n) FROM commands) - ${remembered}`,
  )
  const byId = store.prepare<[string], Row>(`SELECT ${columns} FROM commands WHERE id = ?`)
  const ofDevice = store.prepare<[string, number], Row>(
    `SELECT ${columns} FROM commands WHERE device = ? ORDER BY n DESC LIMIT ?`,
  )
  const open = store.prepare<[], Row>(`SELECT ${columns} FROM commands WHERE state = 'SENT' ORDER BY device, n`)
  const openOf = store.prepare<[string], Row>(`SELECT ${columns} FROM commands WHERE state = 'SENT' AND device = ? ORDER BY n`)
  // What has expired and was done all the same was done: the order was on its way.
  const end = store.prepare(
    "UPDATE commands SET state = ?, ended_at = ?, reason = ? WHERE id = ? AND device = ? AND state IN ('SENT', 'EXPIRED') AND state <> ?",
  )
  const present = new Set<string>()
  const stopping = new AbortController()
  let ticking: Promise<void> | undefined

  function ended(row: Pick<Row, 'id' | 'device'>, state: CommandState, reason: string | null): void {
    const { changes } = end.run(state, new Date(wallMs()).toISOString(), reason, row.id, row.device, state)
    if (changes === 0) return
    logger.info({ device: row.device, command: row.id, state, reason }, 'command ended')
    onChange(row.device)
  }

  /** In the order in which they were given. */
  function send(rows: readonly Row[]): void {
    for (const row of rows) {
      const { expiresAt, wish } = recordOf(row)
      if (wallMs() >= row.expiresMs) ended(row, 'EXPIRED', present.has(row.device) ? 'no reply' : 'the device was away')
      else if (present.has(row.device))
        publish(row.device, JSON.stringify({ v: 1, bridge, id: row.id, expiresAt, ...wish } satisfies Command))
    }
  }

  function guarded(work: () => void): void {
    try {
      work()
    } catch (err) {
      logger.error({ err }, 'commands cannot be read or stored')
    }
  }

  async function tick(): Promise<void> {
    while (!stopping.signal.aborted) {
      guarded(() => send(open.all()))
      await clock.sleep(tickMs, stopping.signal).catch(() => {})
    }
  }

  return {
    start() {
      ticking ??= tick()
    },
    send(device, wish, actor, expiresS) {
      const id = randomBytes(8).toString('hex')
      const nowMs = wallMs()
      store
        .transaction(() => {
          insert.run(id, device, JSON.stringify(wish), actor, new Date(nowMs).toISOString(), Math.round(nowMs + expiresS * 1_000))
          forget.run()
        })
        .immediate()
      logger.info({ device, command: id, type: wish.type, actor }, 'command given')
      const row = byId.get(id)!
      send([row])
      onChange(device)
      return recordOf(row)
    },
    setPresence(device, isPresent) {
      if (!isPresent) return void present.delete(device)
      present.add(device)
      guarded(() => send(openOf.all(device)))
    },
    onReply(device, payload) {
      const read = readMessage(CommandReply, payload)
      if (read.kind === 'unreadable') return onUnreadable(device, 'replies', read.reason)
      const reply = read.message
      if (reply.bridge !== bridge) return
      const states = { done: 'DONE', refused: 'REFUSED', expired: 'EXPIRED' } as const
      guarded(() => ended({ id: reply.id, device }, states[reply.outcome], reply.reason ?? null))
    },
    find(id) {
      const row = byId.get(id)
      return row && recordOf(row)
    },
    of: (device, limit) => ofDevice.all(device, limit).map(recordOf),
    async close() {
      stopping.abort()
      await ticking
    },
  }
}

const recordOf = ({ wish, expiresMs, ...row }: Row): CommandRecord => ({
  ...row,
  wish: JSON.parse(wish) as CommandAction,
  expiresAt: new Date(expiresMs).toISOString(),
})
