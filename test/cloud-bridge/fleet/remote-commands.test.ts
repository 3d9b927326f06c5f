import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type CommandsOptions, commandsTable, createCommands } from '../../../cloud-bridge/fleet/commands.ts'
import { PresenceFeed } from '../../../cloud-bridge/presence/presence-feed.ts'
import { openDatabase } from '../../../core/kit/store/open-database.ts'
import type { DeviceCommand } from '../../../core/wire/protocol/commands.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

/** Opens the commands of a bridge, as each start of its process does, on one clock. */
function world(path: string) {
  const clock = fakeClock(Date.parse('2026-05-01T12:00:00Z'))
  return {
    clock,
    async open(options: Partial<CommandsOptions> = {}) {
      const store = openDatabase(join(path, 'bridge.sqlite'), [commandsTable])
      const sent: { device: string; command: DeviceCommand }[] = []
      const presence = new PresenceFeed(silentLogger())
      const commands = createCommands({
        presence,
        store,
        bridge: 'bridge-1',
        clock,
        wallMs: clock.nowMs,
        publish: (device, message) => sent.push({ device, command: JSON.parse(message) }),
        onChange: () => {},
        onUnreadable: () => {},
        logger: silentLogger(),
        ...options,
      })
      commands.start()
      const reply = (device: string, id: string, outcome: string, more: object = {}) =>
        commands.onReply(
          device,
          Buffer.from(JSON.stringify({ v: 1, bridge: 'bridge-1', id, at: '2026-05-01T12:00:00Z', outcome, ...more })),
        )
      return {
        commands,
        connect: (device: string) => {
          presence.publish({ kind: 'state', device, state: { v: 1, state: 'ready', birth: 1, at: '2026-05-01T12:00:00Z' } })
        },
        sent,
        reply,
        async close() {
          await commands.close()
          store.close()
        },
      }
    },
  }
}

describe('a remote command', () => {
  it('is resent until its device replies', async () => {
    using dir = tempDir()
    const { clock, open } = world(dir.path)
    const { commands, connect, sent, reply, close } = await open()
    connect('a')
    const { id } = commands.send('a', { type: 'drain' }, 'operator-x', 30)
    await clock.advance(2_500)
    expect(sent.length).toBeGreaterThan(2)
    expect(sent.every(({ device, command }) => device === 'a' && command.id === id && command.type === 'drain')).toBe(true)
    reply('b', id, 'done')
    expect(commands.find(id)?.state).toBe('SENT')
    reply('a', id, 'done')
    expect(commands.find(id)).toMatchObject({ state: 'DONE', actor: 'operator-x', device: 'a' })
    const times = sent.length
    await clock.advance(5_000)
    expect(sent.length).toBe(times)
    await close()
  })

  it('whose record is damaged is refused, and keeps no other from being sent', async () => {
    using dir = tempDir()
    const { clock, open } = world(dir.path)
    const before = await open()
    const [damaged, other] = [1, 2].map(() => before.commands.send('a', { type: 'drain' }, 'operator-x', 30).id)
    await before.close()
    const store = openDatabase(join(dir.path, 'bridge.sqlite'), [commandsTable])
    store.prepare("UPDATE commands SET wish = '{' WHERE id = ?").run(damaged)
    store.close()
    const { commands, connect, sent, close } = await open()
    connect('a')
    await clock.advance(1_000)
    expect(sent.every(({ command }) => command.id === other)).toBe(true)
    expect(sent.length).toBeGreaterThan(0)
    expect(commands.of('a', 10)).toMatchObject([
      { id: other },
      { id: damaged, state: 'REFUSED', reason: expect.stringContaining('damaged') },
    ])
    await close()
  })

  it('waits for an absent device, across a restart of the bridge', async () => {
    using dir = tempDir()
    const { clock, open } = world(dir.path)
    const before = await open()
    const { id } = before.commands.send('a', { type: 'logs', level: 'debug', forS: 60 }, 'x', 30)
    expect(before.sent).toEqual([])
    await before.close()
    const { commands, connect, sent, reply, close } = await open()
    await clock.advance(3_000)
    connect('a')
    expect(sent).toMatchObject([{ command: { id, type: 'logs', level: 'debug', forS: 60 } }])
    reply('a', id, 'refused', { reason: 'too old' })
    expect(commands.find(id)).toMatchObject({ state: 'REFUSED', reason: 'too old' })
    await close()
  })

  it('is not sent after its expiry, and counts as done if its device ran it before', async () => {
    using dir = tempDir()
    const { clock, open } = world(dir.path)
    const { commands, connect, sent, reply, close } = await open()
    const { id } = commands.send('a', { type: 'drain' }, 'x', 5)
    await clock.advance(6_000)
    expect(commands.find(id)).toMatchObject({ state: 'EXPIRED', reason: 'the device was not connected' })
    connect('a')
    expect(sent).toEqual([])
    reply('a', id, 'done')
    expect(commands.find(id)?.state).toBe('DONE')
    reply('a', id, 'expired')
    expect(commands.find(id)?.state).toBe('DONE')
    await close()
  })

  it('is sent after earlier commands', async () => {
    using dir = tempDir()
    const { open } = world(dir.path)
    const { commands, connect, sent, close } = await open()
    for (const type of ['drain', 'undrain', 'drain'] as const) commands.send('a', { type }, 'x', 5)
    connect('a')
    expect(sent.map(({ command }) => command.type)).toEqual(['drain', 'undrain', 'drain'])
    expect(commands.of('a', 2).map(({ wish }) => wish.type)).toEqual(['drain', 'undrain'])
    await close()
  })
})
