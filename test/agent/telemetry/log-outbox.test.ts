import { describe, expect, it } from 'vitest'
import { LogOutbox } from '../../../agent/telemetry/log-outbox.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { createLogger } from '../../../core/kit/base/logger.ts'
import { DeviceLog } from '../../../core/wire/protocol/commands.ts'
import { fakeClock } from '../../support/fake-clock.ts'

type Spooled = Omit<DeviceLog, 'v' | 'at' | 'birth'>

/** A logger with an outbox; while `hasBridge`, lines are published, else spooled. */
function logging({ hasBridge }: { hasBridge: boolean }) {
  const clock = fakeClock()
  const outbox = new LogOutbox(clock, 7)
  const logger = createLogger('silent', { device: 'jetson-01' }, { tap: outbox })
  const published: DeviceLog[] = []
  const spooled: Spooled[] = []
  const links = {
    hasBridge,
    publishToAll: (_leaf: string, line: string) => void published.push(DeviceLog.parse(JSON.parse(line))),
  }
  const spool = { put: (_leaf: string, line: object) => void spooled.push(line as Spooled) }
  return {
    clock,
    outbox,
    links,
    spool,
    published,
    spooled,
    link: logger.child({ component: 'link' }),
    api: logger.child({ component: 'api' }),
  }
}

describe("the outbox of a device's log", () => {
  it('publishes warnings and errors, and lower levels for as long as they are requested', async () => {
    const { clock, outbox, links, spool, published, link } = logging({ hasBridge: true })
    outbox.start(links, spool)
    link.info('connected')
    link.warn({ failures: 3 }, 'unreachable, retrying')
    outbox.request('debug', 60)
    link.debug('probed')
    await clock.advance(60_000)
    link.debug('probed again')
    link.error('lost')
    expect(published.map(({ level, message }) => [level, message])).toEqual([
      ['warn', 'unreachable, retrying'],
      ['debug', 'probed'],
      ['error', 'lost'],
    ])
    expect(published[0]).toMatchObject({ birth: 7, component: 'link', fields: { failures: 3 }, dropped: 0 })
  })

  it('omits error messages that could quote a prompt, lengths, secrets and stacks', () => {
    const { outbox, links, spool, published, link, api } = logging({ hasBridge: true })
    outbox.start(links, spool)
    api.warn({ err: new Error('unexpected "my secret question"') }, 'answer broken off')
    api.warn({ err: new BrimError('CHAT_TEMPLATE_INVALID', 'refuses "my secret question"') }, 'request failed')
    link.warn({ err: new BrimError('LINK_LOST', 'the socket closed'), url: 'mqtt://me:secret@host', token: 'secret' }, 'lost')
    api.warn({ prompt_tokens: 17, sources: [{ model: 'slm', tokens: 4 }], ttftMs: 30 }, 'the small model went on')
    expect(published.map(({ fields }) => fields)).toEqual([
      { error: 'Error' },
      { error: 'CHAT_TEMPLATE_INVALID' },
      { url: 'mqtt://host', token: '[Redacted]', error: 'LINK_LOST', why: 'the socket closed' },
      { ttftMs: 30 },
    ])
    expect(JSON.stringify(published)).not.toContain('secret')
  })

  it('drops lines beyond its rate and reports how many', async () => {
    const { clock, outbox, links, spool, published, link } = logging({ hasBridge: true })
    outbox.start(links, spool)
    for (let n = 0; n < 500; n++) link.warn({ n }, 'again')
    expect(published.length).toBe(50)
    await clock.advance(1_000)
    for (let n = 0; n < 500; n++) link.warn({ n }, 'again')
    expect(published.length).toBe(52)
    expect(published[50]?.dropped).toBe(450)
  })

  it('buffers 100 lines before its start and reports how many it has dropped', async () => {
    const { clock, outbox, links, spool, spooled, link } = logging({ hasBridge: false })
    for (let n = 0; n < 150; n++) {
      link.warn({ n }, 'not started')
      await clock.advance(500)
    }
    outbox.start(links, spool)
    expect([spooled.length, spooled[0]?.fields.n, spooled[0]?.dropped, spooled[1]?.dropped]).toEqual([100, 50, 50, 0])
  })

  it('spools lines while no bridge receives them, from the first one on', () => {
    const { outbox, links, spool, published, spooled, link } = logging({ hasBridge: false })
    link.warn({ n: 0 }, 'not started')
    outbox.start(links, spool)
    link.warn({ n: 1 }, 'no bridge')
    expect(spooled.map(({ fields }) => fields.n)).toEqual([0, 1])
    links.hasBridge = true
    link.warn({ n: 2 }, 'connected')
    expect([published.map(({ fields }) => fields.n), spooled.length]).toEqual([[2], 2])
  })

  it('does not send lines that are logged while it sends one', () => {
    const { outbox, links, spooled, link } = logging({ hasBridge: false })
    outbox.start(links, {
      put(_leaf, line) {
        spooled.push(line as Spooled)
        link.warn('disk full')
      },
    })
    link.warn('lost')
    expect(spooled.map(({ message }) => message)).toEqual(['lost'])
  })
})
