import { describe, expect, it } from 'vitest'
import type { BridgeLink } from '../../../agent/link/bridge-link.ts'
import { BridgeLinks } from '../../../agent/link/bridge-links.ts'
import type { LinkSession } from '../../../agent/link/link-session.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { LinkStatus } from '../../../core/policy/link/choose-link.ts'
import { recordingLogger } from '../../support/recording-logger.ts'

const never = new AbortController().signal
const up = { broker: 'connected', bridge: 'connected' } as const
const down = { broker: 'unreachable', bridge: 'unreachable' } as const

/** Links of these states that record the requests they get; only a connected one opens a session. */
function linksOf(states: readonly LinkStatus[]) {
  const asked: number[] = []
  const closed: number[] = []
  const published: [number, string][] = []
  const { logger, lines } = recordingLogger('error')
  const links = states.map(
    (status, at): Partial<BridgeLink> => ({
      url: `mqtt://${at}`,
      status,
      hasBridge: status.broker === 'connected',
      publish: async (_leaf, message) => {
        published.push([at, message])
        return true
      },
      async open() {
        asked.push(at)
        if (status.bridge !== 'connected') throw new BrimError('BRIDGE_UNREACHABLE', `bridge ${at} is unreachable`)
        return { bridge: status.dataUrl } as LinkSession
      },
      close: async () => {
        closed.push(at)
      },
    }),
  )
  return { asked, closed, published, lines, links: new BridgeLinks(links as BridgeLink[], logger) }
}

describe('the links to several bridges', () => {
  it('open a session at the least busy bridge, at the first configured of several', async () => {
    const { asked, links } = linksOf([
      { ...up, sessions: 3 },
      { ...up, sessions: 1 },
      { ...up, sessions: 1 },
    ])
    await links.open(never)
    expect(asked).toEqual([1])
  })

  it('resume a prefix at the data plane that has cached it, whatever the bridge ids are', async () => {
    const { asked, links } = linksOf([
      { ...up, bridgeId: 'bridge-1', dataUrl: 'ws://a', sessions: 0 },
      { ...up, bridgeId: 'bridge-1', dataUrl: 'ws://b', sessions: 9 },
    ])
    await links.open(never, { resume: { handle: 'h', length: 20, bridge: 'ws://b' } })
    expect(asked).toEqual([1])
  })

  it('ask a bridge to avoid last, but before unreachable ones', async () => {
    const { asked, links } = linksOf([
      { ...up, dataUrl: 'ws://a', sessions: 0 },
      { ...up, dataUrl: 'ws://b', sessions: 9 },
    ])
    await links.open(never, { resume: { handle: 'h', length: 20, bridge: 'ws://a' }, avoid: 'ws://a' })
    expect(asked).toEqual([1])
    const alone = linksOf([down, { ...up, dataUrl: 'ws://a' }])
    await alone.links.open(never, { avoid: 'ws://a' })
    expect(alone.asked).toEqual([1])
  })

  it('ask the next bridge when one fails, and report the error of the best one', async () => {
    const { asked, links } = linksOf([down, { broker: 'connected', bridge: 'unreachable' }, up])
    await links.open(never)
    expect(asked).toEqual([2])
    const unreachable = linksOf([
      down,
      { broker: 'connected', bridge: 'mismatch' },
      { broker: 'connected', bridge: 'unreachable' },
    ])
    await expect(unreachable.links.open(never)).rejects.toMatchObject({ message: 'bridge 2 is unreachable' })
    expect(unreachable.asked).toEqual([2, 0, 1])
  })

  it('close the second of two links that lead to the same bridge, and log an error once', async () => {
    const same = { ...up, dataUrl: 'ws://a' }
    const { asked, closed, lines, links } = linksOf([same, same, { ...up, dataUrl: 'ws://b', sessions: 5 }])
    await links.open(never)
    await links.open(never)
    expect([asked, closed, lines.length]).toEqual([[0, 0], [1], 1])
  })

  it('report the status of the link that would be asked first', () => {
    expect(linksOf([down, { ...up, bridgeId: 'b' }]).links.status).toMatchObject({ bridge: 'connected', bridgeId: 'b' })
  })

  it('replay on one link that has a bridge', async () => {
    const { published, links } = linksOf([down, up, up])
    expect([links.hasBridge, await links.replay('log', 'x'), published]).toEqual([true, true, [[1, 'x']]])
    const unreachable = linksOf([down, down])
    const { links: none, published: unsent } = unreachable
    expect([none.hasBridge, await none.replay('log', 'x'), unsent]).toEqual([false, false, []])
  })

  it('publish on every link if asked to', () => {
    const { published, links } = linksOf([up, up])
    links.publishToAll('log', 'x')
    expect(published).toEqual([
      [0, 'x'],
      [1, 'x'],
    ])
  })
})
