import { nowIso } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import { CommandAction, CommandAddress, CommandEnvelope, type CommandReply, type LogLevel } from '../../core/protocol/commands.ts'
import type { DeviceState } from '../../core/protocol/messages.ts'
import { readMessage, type Unreadable } from '../../core/protocol/read-message.ts'
import type { Store } from '../../core/store/open-database.ts'

/** A migration: what bridges have ordered, with the reply that a repeat gets too, and whether this device drains. */
export const remoteTables = `CREATE TABLE commands (
  n INTEGER PRIMARY KEY,
  bridge TEXT NOT NULL,
  id TEXT NOT NULL,
  reply TEXT NOT NULL,
  UNIQUE (bridge, id)
) STRICT;
CREATE TABLE draining (id INTEGER PRIMARY KEY CHECK (id = 1)) STRICT;`

/** Replies that are remembered: an order older than these is obeyed again. */
const remembered = 1_000

/** What the control link to one broker does for remote commands. */
export interface RemotePort {
  /** What the device's retained state says while it is connected. */
  readonly state: Extract<DeviceState['state'], 'ready' | 'draining'>
  onCommand(payload: Uint8Array): void
  /** The connection, or that there is none. */
  onLink(publish: RemotePublish | undefined): void
}

export interface RemotePublish {
  reply(message: string): void
  /** The retained state, which has changed; resolves once the broker has told everybody of it, or has gone. */
  announce(): Promise<void>
}

/** Operators at the bridges: what they order is done once, whatever is repeated, and answered. */
export interface Remote {
  readonly isDraining: boolean
  /** @param link names the broker */
  port(link: string): RemotePort
}

export interface RemoteOptions {
  /** Must have had `remoteTables`. */
  readonly store: Store
  readonly log: { request(level: LogLevel, forS: number): void }
  /** Of this device in UTC ms; undefined while its clock is not set: then it cannot tell what has expired. */
  readonly wallMs: () => number | undefined
  readonly logger: Logger
}

export function createRemote({ store, log, wallMs, logger }: RemoteOptions): Remote {
  const find = store.prepare<[string, string], { reply: string }>('SELECT reply FROM commands WHERE bridge = ? AND id = ?')
  const remember = store.prepare('INSERT INTO commands (bridge, id, reply) VALUES (?, ?, ?)')
  const forget = store.prepare(`DELETE FROM commands WHERE n <= (SELECT max(n) FROM commands) - ${remembered}`)
  const drain = store.prepare('INSERT OR IGNORE INTO draining (id) VALUES (1)')
  const undrain = store.prepare('DELETE FROM draining')
  const drained = store.prepare('SELECT id FROM draining')
  let isDraining = drained.get() !== undefined
  const links = new Map<string, RemotePublish>()

  function obey(command: CommandEnvelope): Pick<CommandReply, 'outcome' | 'reason'> {
    const nowMs = wallMs()
    if (nowMs !== undefined && nowMs >= Date.parse(command.expiresAt))
      return { outcome: 'expired', reason: `by the device's clock, ${new Date(nowMs).toISOString()}` }
    const wish = CommandAction.safeParse(command)
    if (!wish.success) return { outcome: 'refused', reason: `this agent does not know "${command.type}", or not like this` }
    switch (wish.data.type) {
      case 'drain':
        drain.run()
        break
      case 'undrain':
        undrain.run()
        break
      case 'logs':
        log.request(wish.data.level, wish.data.forS)
        break
      default:
        wish.data satisfies never
    }
    return { outcome: 'done' }
  }

  /** What is done and that it was done are one commit: after a restart too a repeat gets the same reply. */
  const obeyOnce = store.transaction((command: CommandEnvelope): { reply: string; isNew: boolean } => {
    const { bridge, id } = command
    const before = find.get(bridge, id)
    if (before) return { ...before, isNew: false }
    const reply = JSON.stringify({ v: 1, bridge, id, at: nowIso(), ...obey(command) } satisfies CommandReply)
    remember.run(bridge, id, reply)
    forget.run()
    return { reply, isNew: true }
  })

  /** Whoever has sent it learns why, where it can be told who that was. */
  function refuse(link: string, { json, reason }: Unreadable): void {
    logger.warn({ reason }, 'unreadable command ignored')
    const whose = CommandAddress.safeParse(json)
    if (!whose.success) return
    const reply: CommandReply = { v: 1, ...whose.data, at: nowIso(), outcome: 'refused', reason }
    links.get(link)?.reply(JSON.stringify(reply))
  }

  function heard(link: string, payload: Uint8Array): void {
    const read = readMessage(CommandEnvelope, payload)
    if (read.kind === 'unreadable') {
      refuse(link, read)
      return
    }
    const command = read.message
    try {
      const { reply, isNew } = obeyOnce.immediate(command)
      if (isNew) {
        const { outcome, reason } = JSON.parse(reply) as CommandReply
        logger.info(
          { bridge: command.bridge, command: command.id, type: command.type, outcome, reason },
          'command of an operator',
        )
      }
      const told = refresh(link)
      // Whoever has the reply shall find the new state, and brokers do not keep the order of two topics.
      if (told) void told.then(() => links.get(link)?.reply(reply))
      else links.get(link)?.reply(reply)
    } catch (err) {
      // The bridge says it again until it has a reply.
      logger.error({ err, command: command.id }, 'command not stored')
    }
  }

  /** Tells all bridges of a new state. @returns when the broker of `from` has heard of it; undefined: nothing has changed */
  function refresh(from: string): Promise<void> | undefined {
    const now = drained.get() !== undefined
    if (now === isDraining) return undefined
    isDraining = now
    const told = [...links].map(([name, link]) => ({ name, heard: link.announce() }))
    return told.find(({ name }) => name === from)?.heard
  }

  return {
    get isDraining() {
      return isDraining
    },
    port: (link) => ({
      get state() {
        return isDraining ? ('draining' as const) : ('ready' as const)
      },
      onCommand: (payload) => heard(link, payload),
      onLink(publish) {
        if (publish) links.set(link, publish)
        else links.delete(link)
      },
    }),
  }
}
