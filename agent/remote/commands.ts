import { nowIso } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import {
  CommandAction,
  CommandAddress,
  CommandEnvelope,
  type CommandReply,
  type LogLevel,
} from '../../core/wire/protocol/commands.ts'
import { readMessage, type Unreadable } from '../../core/wire/protocol/read-message.ts'
import type { ControlService, Publisher } from '../link/ports.ts'

/** A migration: the commands that ran, with the reply that a repeat gets again, and whether this device drains. */
export const remoteTables = `CREATE TABLE commands (
  n INTEGER PRIMARY KEY,
  bridge TEXT NOT NULL,
  id TEXT NOT NULL,
  reply TEXT NOT NULL,
  UNIQUE (bridge, id)
) STRICT;
CREATE TABLE draining (id INTEGER PRIMARY KEY CHECK (id = 1)) STRICT;`

/** Retained replies. A repeat of an older command runs again. */
const maxRetained = 1_000

export interface RemoteOptions {
  /** Must have `remoteTables`. */
  readonly store: Store
  readonly log: { request(level: LogLevel, forS: number): void }
  /** UTC ms; undefined while the device's clock is not set. Commands do not expire then. */
  readonly wallMs: () => number | undefined
  readonly logger: Logger
}

interface CommandService extends Required<ControlService> {
  readonly handlers: { readonly commands: (payload: Uint8Array) => void }
  readonly stateFields: () => { readonly state: 'draining' | 'ready' }
}

export interface Remote {
  readonly isDraining: boolean
  /** The agent is about to stop: publishes `draining` to all bridges, until the end of this process. */
  stop(): void
  /** The commands of one broker. @param link its address */
  service(link: string): CommandService
}

/** Runs the commands of operators. Each runs once, however often it is repeated, and gets a reply. */
export function createRemote({ store, log, wallMs, logger }: RemoteOptions): Remote {
  const find = store.prepare<[string, string], { reply: string }>('SELECT reply FROM commands WHERE bridge = ? AND id = ?')
  const insert = store.prepare('INSERT INTO commands (bridge, id, reply) VALUES (?, ?, ?)')
  const deleteOld = store.prepare(`DELETE FROM commands WHERE n <= (SELECT max(n) FROM commands) - ${maxRetained}`)
  const startDraining = store.prepare('INSERT OR IGNORE INTO draining (id) VALUES (1)')
  const stopDraining = store.prepare('DELETE FROM draining')
  const readDraining = store.prepare('SELECT id FROM draining')
  let isDraining = readDraining.get() !== undefined
  let isStopping = false
  const links = new Map<string, Publisher>()
  const send = (link: string, reply: string, bridge: string) => void links.get(link)?.publish('replies', reply, bridge)

  function run(command: CommandEnvelope): Pick<CommandReply, 'outcome' | 'reason'> {
    const nowMs = wallMs()
    if (nowMs !== undefined && nowMs >= Date.parse(command.expiresAt))
      return { outcome: 'expired', reason: `it is ${new Date(nowMs).toISOString()} by the device's clock` }
    const action = CommandAction.safeParse(command)
    if (!action.success) {
      const reason = `this agent does not support the command "${command.type}", or not with these fields`
      return { outcome: 'refused', reason }
    }
    switch (action.data.type) {
      case 'drain':
        startDraining.run()
        break
      case 'undrain':
        stopDraining.run()
        break
      case 'logs':
        log.request(action.data.level, action.data.forS)
        break
      default:
        action.data satisfies never
    }
    return { outcome: 'done' }
  }

  /** The action and its reply are one commit, so that a repeat gets the same reply after a restart too. */
  const runOnce = store.transaction((command: CommandEnvelope): { reply: string; isNew: boolean } => {
    const { bridge, id } = command
    const known = find.get(bridge, id)
    if (known) return { ...known, isNew: false }
    const reply = JSON.stringify({ v: 1, bridge, id, at: nowIso(), ...run(command) } satisfies CommandReply)
    insert.run(bridge, id, reply)
    deleteOld.run()
    return { reply, isNew: true }
  })

  /** Replies with the reason, if the command's address is readable. */
  function refuse(link: string, { json, reason }: Unreadable): void {
    logger.warn({ reason }, 'unreadable command ignored')
    const address = CommandAddress.safeParse(json)
    if (!address.success) return
    const reply: CommandReply = { v: 1, ...address.data, at: nowIso(), outcome: 'refused', reason }
    send(link, JSON.stringify(reply), reply.bridge)
  }

  function onCommand(link: string, payload: Uint8Array): void {
    const read = readMessage(CommandEnvelope, payload)
    if (read.kind === 'unreadable') {
      refuse(link, read)
      return
    }
    const command = read.message
    try {
      const { reply, isNew } = runOnce.immediate(command)
      if (isNew) {
        const { outcome, reason } = JSON.parse(reply) as CommandReply
        logger.info({ bridge: command.bridge, command: command.id, type: command.type, outcome, reason }, 'command ended')
      }
      const delivered = publishDraining(link)
      // The new state must arrive before the reply, and brokers do not keep the order of two topics.
      if (delivered) void delivered.then(() => send(link, reply, command.bridge))
      else send(link, reply, command.bridge)
    } catch (err) {
      logger.error({ err, command: command.id }, 'command not stored')
      const reason = `the device cannot store the command: ${err instanceof Error ? err.message : String(err)}`
      const { bridge, id } = command
      send(link, JSON.stringify({ v: 1, bridge, id, at: nowIso(), outcome: 'refused', reason } satisfies CommandReply), bridge)
    }
  }

  /** Publishes a change of the state to all bridges. @returns resolves when the broker `to` has acknowledged it; undefined: no change */
  function publishDraining(to: string): Promise<unknown> | undefined {
    const now = readDraining.get() !== undefined
    if (now === isDraining) return undefined
    isDraining = now
    const published = new Map([...links].map(([link, connection]) => [link, connection.publishState()]))
    return published.get(to)
  }

  return {
    get isDraining() {
      return isDraining || isStopping
    },
    stop(): void {
      isStopping = true
      for (const connection of links.values()) void connection.publishState()
    },
    service: (link) => ({
      handlers: { commands: (payload) => onCommand(link, payload) },
      stateFields: () => ({ state: isDraining || isStopping ? ('draining' as const) : ('ready' as const) }),
      onConnection(publisher) {
        if (publisher) links.set(link, publisher)
        else links.delete(link)
      },
    }),
  }
}
