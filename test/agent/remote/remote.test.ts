import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { createRemote, remoteTables } from '../../../agent/remote/commands.ts'
import { LogOutbox } from '../../../agent/telemetry/log-outbox.ts'
import { BrimError } from '../../../core/base/errors.ts'
import { createLogger } from '../../../core/base/logger.ts'
import { type CommandReply, DeviceLog, type LogLevel } from '../../../core/protocol/commands.ts'
import { openDatabase } from '../../../core/store/open-database.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const nowMs = Date.parse('2026-05-01T12:00:00Z')
const id = (n: number) => n.toString(16).padStart(16, '0')
const order = (n: number, more: object) =>
  Buffer.from(JSON.stringify({ v: 1, bridge: 'bridge-1', id: id(n), expiresAt: new Date(nowMs + 1_000).toISOString(), ...more }))

const dirs: Disposable[] = []
afterEach(() => {
  for (const dir of dirs.splice(0)) dir[Symbol.dispose]()
})

/** A device's side of remote commands on a database of its own, as after each start of the agent. */
function folder() {
  const dir = tempDir()
  dirs.push(dir)
  return (wallMs: () => number | undefined = () => nowMs) => {
    const store = openDatabase(join(dir.path, 'agent.sqlite'), [remoteTables])
    const asked: [LogLevel, number][] = []
    const log = { ask: (level: LogLevel, forS: number) => void asked.push([level, forS]), onLink: () => {} }
    const remote = createRemote({ store, log, wallMs, logger: silentLogger() })
    const port = remote.port('mqtt://a')
    const replies: CommandReply[] = []
    const announced: string[] = []
    port.onLink({
      reply: (message) => replies.push(JSON.parse(message)),
      log: () => {},
      announce: async () => void announced.push(port.state),
    })
    return { remote, port, replies, announced, asked, close: () => store.close() }
  }
}

describe('a device that is ordered something', () => {
  it('drains, tells of it before it replies, and still does after a restart', async () => {
    const open = folder()
    const { port, replies, announced, close } = open()
    expect(port.state).toBe('ready')
    port.onCommand(order(1, { type: 'drain' }))
    expect([announced, replies]).toEqual([['draining'], []])
    await expect.poll(() => replies).toMatchObject([{ bridge: 'bridge-1', id: id(1), outcome: 'done' }])
    close()
    const again = open()
    expect(again.port.state).toBe('draining')
    again.port.onCommand(order(2, { type: 'undrain' }))
    expect(again.announced).toEqual(['ready'])
    again.close()
  })

  it('does it once: a repeat gets the same reply, after a restart too', async () => {
    const open = folder()
    const first = open()
    first.port.onCommand(order(1, { type: 'drain' }))
    first.port.onCommand(order(2, { type: 'undrain' }))
    await expect.poll(() => first.replies.length).toBe(2)
    // The reply to the first was lost: it comes again, after the second.
    first.port.onCommand(order(1, { type: 'drain' }))
    expect(first.replies[2]).toEqual(first.replies[0])
    expect(first.remote.isDraining).toBe(false)
    first.close()
    const again = open(() => nowMs + 60_000)
    again.port.onCommand(order(1, { type: 'drain' }))
    expect(again.replies).toEqual([first.replies[0]])
    expect(again.remote.isDraining).toBe(false)
    again.close()
  })

  it('refuses what has expired, unless its clock is not set', async () => {
    const late = folder()(() => nowMs + 1_000)
    late.port.onCommand(order(1, { type: 'drain' }))
    expect(late.replies).toMatchObject([{ outcome: 'expired', reason: expect.stringContaining('2026-05-01T12:00:01') }])
    expect(late.remote.isDraining).toBe(false)
    late.close()
    const timeless = folder()(() => undefined)
    timeless.port.onCommand(order(1, { type: 'drain' }))
    await expect.poll(() => timeless.replies).toMatchObject([{ outcome: 'done' }])
    timeless.close()
  })

  it('refuses what it does not know, and says so; what is no order at all it ignores', () => {
    const { port, replies, asked, close } = folder()()
    port.onCommand(order(1, { type: 'dance' }))
    port.onCommand(order(2, { type: 'logs', level: 'debug', forS: 1e9 }))
    port.onCommand(order(3, { type: 'logs', level: 'debug', forS: 60 }))
    for (const garbage of ['', '{', '{"v":2}', '[]']) port.onCommand(Buffer.from(garbage))
    expect(replies).toMatchObject([
      { id: id(1), outcome: 'refused', reason: expect.stringContaining('"dance"') },
      { id: id(2), outcome: 'refused' },
      { id: id(3), outcome: 'done' },
    ])
    expect(asked).toEqual([['debug', 60]])
    close()
  })
})

describe("a device's log on its way to the bridge", () => {
  function logging() {
    const clock = fakeClock()
    const outbox = new LogOutbox(clock, () => 7)
    const logger = createLogger('silent', { device: 'jetson-01' }, () => {}, outbox)
    const lines: DeviceLog[] = []
    const publish = (line: string) => lines.push(DeviceLog.parse(JSON.parse(line)))
    const spooled: DeviceLog[] = []
    const bridges = new Set<string>()
    const spooling = { isHeard: () => bridges.size > 0, put: (line: DeviceLog) => spooled.push(line) }
    const onLink = (name: string, tell?: (line: string) => void) => {
      outbox.onLink(name, tell)
      if (tell) bridges.add(name)
      else bridges.delete(name)
    }
    return {
      clock,
      outbox,
      onLink,
      lines,
      publish,
      spooling,
      spooled,
      link: logger.child({ component: 'link' }),
      api: logger.child({ component: 'api' }),
    }
  }

  it('has warnings and errors by itself, and all else for as long as it is asked', async () => {
    const { clock, outbox, onLink, lines, publish, spooling, link } = logging()
    outbox.spoolTo(spooling)
    onLink('a', publish)
    link.info('connected')
    link.warn({ failures: 3 }, 'unreachable, retrying')
    outbox.ask('debug', 60)
    link.debug('probed')
    await clock.advance(60_000)
    link.debug('probed again')
    link.error('gone')
    expect(lines.map(({ level, message }) => [level, message])).toEqual([
      ['warn', 'unreachable, retrying'],
      ['debug', 'probed'],
      ['error', 'gone'],
    ])
    expect(lines[0]).toMatchObject({ birth: 7, component: 'link', fields: { failures: 3 }, dropped: 0 })
  })

  it('never has the words of an error that might quote what was asked, nor lengths, nor secrets, nor a stack', () => {
    const { outbox, onLink, lines, publish, spooling, link, api } = logging()
    outbox.spoolTo(spooling)
    onLink('a', publish)
    api.warn({ err: new Error('unexpected "my secret question"') }, 'answer broken off')
    api.warn({ err: new BrimError('CHAT_TEMPLATE_INVALID', 'refuses "my secret question"') }, 'request failed')
    link.warn({ err: new BrimError('LINK_LOST', 'the socket closed'), url: 'mqtt://me:secret@host', token: 'secret' }, 'lost')
    api.warn({ prompt_tokens: 17, sources: [{ model: 'slm', tokens: 4 }], ttftMs: 30 }, 'the small model went on')
    expect(lines.map(({ fields }) => fields)).toEqual([
      { error: 'Error' },
      { error: 'CHAT_TEMPLATE_INVALID' },
      { url: 'mqtt://host', token: '[Redacted]', error: 'LINK_LOST', why: 'the socket closed' },
      { ttftMs: 30 },
    ])
    expect(JSON.stringify(lines)).not.toContain('secret')
  })

  it('keeps to its rate, and tells how much it left out', async () => {
    const { clock, outbox, onLink, lines, publish, spooling, link } = logging()
    outbox.spoolTo(spooling)
    onLink('a', publish)
    for (let n = 0; n < 500; n++) link.warn({ n }, 'again')
    expect(lines.length).toBe(50)
    await clock.advance(1_000)
    for (let n = 0; n < 500; n++) link.warn({ n }, 'again')
    expect(lines.length).toBe(52)
    expect(lines[50]?.dropped).toBe(450)
  })

  it('tells how much it has forgotten while it waited', async () => {
    const { clock, outbox, spooling, spooled, link } = logging()
    for (let n = 0; n < 150; n++) {
      link.warn({ n }, 'no spool yet')
      await clock.advance(500)
    }
    outbox.spoolTo(spooling)
    expect([spooled.length, spooled[0]?.fields.n, spooled[0]?.dropped, spooled[1]?.dropped]).toEqual([100, 50, 50, 0])
  })

  it('is spooled while no bridge hears, from the first line on, and goes to each that does', () => {
    const { outbox, onLink, lines, publish, spooling, spooled, link } = logging()
    link.warn({ n: 0 }, 'no spool yet')
    outbox.spoolTo(spooling)
    // A broker without a bridge.
    outbox.onLink('a', publish)
    link.warn({ n: 1 }, 'no bridge')
    expect(spooled.map(({ fields }) => fields.n)).toEqual([0, 1])
    const others: string[] = []
    onLink('a', publish)
    onLink('b', (line) => others.push(line))
    link.warn('both')
    onLink('a')
    link.warn('the other')
    expect(others.map((line) => DeviceLog.parse(JSON.parse(line)).message)).toEqual(['both', 'the other'])
    expect([lines.length, spooled.length]).toEqual([1, 2])
  })

  it('does not tell what goes wrong while it is told: that would never end', () => {
    const { outbox, spooled, link } = logging()
    outbox.spoolTo({
      isHeard: () => false,
      put(line) {
        spooled.push(line)
        link.warn('no room')
      },
    })
    link.warn('lost')
    expect(spooled.map(({ message }) => message)).toEqual(['lost'])
  })
})
