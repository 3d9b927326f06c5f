import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { createRemote, remoteTables } from '../../../agent/remote/commands.ts'
import { openDatabase } from '../../../core/kit/store/open-database.ts'
import type { CommandReply, LogLevel } from '../../../core/wire/protocol/commands.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const nowMs = Date.parse('2026-05-01T12:00:00Z')
const id = (n: number) => n.toString(16).padStart(16, '0')
const command = (n: number, more: object) =>
  Buffer.from(JSON.stringify({ v: 1, bridge: 'bridge-1', id: id(n), expiresAt: new Date(nowMs + 1_000).toISOString(), ...more }))

const dirs: Disposable[] = []
afterEach(() => {
  for (const dir of dirs.splice(0)) dir[Symbol.dispose]()
})

/** Opens the remote commands on one database, as each start of the agent does. */
function folder() {
  const dir = tempDir()
  dirs.push(dir)
  return (wallMs: () => number | undefined = () => nowMs) => {
    const store = openDatabase(join(dir.path, 'agent.sqlite'), [remoteTables])
    const requested: [LogLevel, number][] = []
    const log = { request: (level: LogLevel, forS: number) => void requested.push([level, forS]) }
    const remote = createRemote({ store, log, wallMs, logger: silentLogger() })
    const { handlers, stateFields, onConnection } = remote.service('mqtt://a')
    const replies: CommandReply[] = []
    const announced: string[] = []
    onConnection({
      publish: async (_leaf, message) => replies.push(JSON.parse(message)) > 0,
      publishState: async () => announced.push(stateFields().state) > 0,
    })
    const port = {
      onCommand: handlers.commands,
      get state() {
        return stateFields().state
      },
    }
    return { remote, port, replies, announced, requested, close: () => store.close() }
  }
}

it('an agent that is about to stop publishes that it drains, and its next start does not drain', () => {
  const open = folder()
  const { remote, port, announced, close } = open()
  remote.stop()
  expect([port.state, announced]).toEqual(['draining', ['draining']])
  close()
  const again = open()
  expect(again.port.state).toBe('ready')
  again.close()
})

describe('a remote command', () => {
  it('drains the device, which publishes its state before the reply and stays draining after a restart', async () => {
    const open = folder()
    const { port, replies, announced, close } = open()
    expect(port.state).toBe('ready')
    port.onCommand(command(1, { type: 'drain' }))
    expect([announced, replies]).toEqual([['draining'], []])
    await expect.poll(() => replies).toMatchObject([{ bridge: 'bridge-1', id: id(1), outcome: 'done' }])
    close()
    const again = open()
    expect(again.port.state).toBe('draining')
    again.port.onCommand(command(2, { type: 'undrain' }))
    expect(again.announced).toEqual(['ready'])
    again.close()
  })

  it('runs once: a repeat gets the same reply, after a restart too', async () => {
    const open = folder()
    const first = open()
    first.port.onCommand(command(1, { type: 'drain' }))
    first.port.onCommand(command(2, { type: 'undrain' }))
    await expect.poll(() => first.replies.length).toBe(2)
    // The first reply was lost, so the first command comes again, after the second.
    first.port.onCommand(command(1, { type: 'drain' }))
    expect(first.replies[2]).toEqual(first.replies[0])
    expect(first.remote.isDraining).toBe(false)
    first.close()
    const again = open(() => nowMs + 60_000)
    again.port.onCommand(command(1, { type: 'drain' }))
    expect(again.replies).toEqual([first.replies[0]])
    expect(again.remote.isDraining).toBe(false)
    again.close()
  })

  it('is not run after its expiry, unless the clock is not set', async () => {
    const late = folder()(() => nowMs + 1_000)
    late.port.onCommand(command(1, { type: 'drain' }))
    expect(late.replies).toMatchObject([{ outcome: 'expired', reason: expect.stringContaining('2026-05-01T12:00:01') }])
    expect(late.remote.isDraining).toBe(false)
    late.close()
    const timeless = folder()(() => undefined)
    timeless.port.onCommand(command(1, { type: 'drain' }))
    await expect.poll(() => timeless.replies).toMatchObject([{ outcome: 'done' }])
    timeless.close()
  })

  it('is refused with a reply if its type is unknown, and ignored if its address is unreadable', () => {
    const { port, replies, requested, close } = folder()()
    port.onCommand(command(1, { type: 'dance' }))
    port.onCommand(command(2, { type: 'logs', level: 'debug', forS: 1e9 }))
    port.onCommand(command(3, { type: 'logs', level: 'debug', forS: 60 }))
    for (const garbage of ['', '{', '{"v":2}', '[]']) port.onCommand(Buffer.from(garbage))
    expect(replies).toMatchObject([
      { id: id(1), outcome: 'refused', reason: expect.stringContaining('"dance"') },
      { id: id(2), outcome: 'refused' },
      { id: id(3), outcome: 'done' },
    ])
    expect(requested).toEqual([['debug', 60]])
    close()
  })
})
