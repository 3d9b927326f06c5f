import { describe, expect, it } from 'vitest'
import type { BridgeLink, LinkStatus } from '../../../agent/link/bridge-link.ts'
import { createBridgeLinks } from '../../../agent/link/bridge-links.ts'
import type { LinkSession } from '../../../agent/link/link-session.ts'
import { BrimError } from '../../../core/base/errors.ts'
import { recordingLogger } from '../../support/recording-logger.ts'

const never = new AbortController().signal
const up = { broker: 'connected', bridge: 'connected' } as const
const down = { broker: 'unreachable', bridge: 'unreachable' } as const

/** Links of these states, which write down who is asked for a session; those that are down refuse. */
function linksOf(states: readonly LinkStatus[]) {
  const asked: number[] = []
  const closed: number[] = []
  const said: [number, string][] = []
  const { logger, lines } = recordingLogger('error')
  const links = states.map(
    (status, at): BridgeLink => ({
      start() {},
      status: () => status,
      hasBridge: status.broker === 'connected',
      publish: async (_leaf, message) => {
        said.push([at, message])
        return true
      },
      async open() {
        asked.push(at)
        if (status.bridge !== 'connected') throw new BrimError('BRIDGE_UNREACHABLE', `bridge ${at} is away`)
        return { bridge: status.dataUrl } as LinkSession
      },
      close: async () => {
        closed.push(at)
      },
    }),
  )
  return { asked, closed, said, lines, links: createBridgeLinks(links, logger) }
}

describe('several bridges', () => {
  it('are asked for a session by how busy they are, the first named first', async () => {
    const { asked, links } = linksOf([
      { ...up, sessions: 3 },
      { ...up, sessions: 1 },
      { ...up, sessions: 1 },
    ])
    await links.open(never)
    expect(asked).toEqual([1])
  })

  it('are asked first where they hold what is to be resumed, whatever they are called', async () => {
    const { asked, links } = linksOf([
      { ...up, bridgeId: 'bridge-1', dataUrl: 'ws://a', sessions: 0 },
      { ...up, bridgeId: 'bridge-1', dataUrl: 'ws://b', sessions: 9 },
    ])
    await links.open(never, { resume: { handle: 'h', length: 20, bridge: 'ws://b' } })
    expect(asked).toEqual([1])
  })

  it('are asked last where they have just failed such a session, but before those that are away', async () => {
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

  it('are asked one after another while they refuse, those that are away last', async () => {
    const { asked, links } = linksOf([down, { broker: 'connected', bridge: 'unreachable' }, up])
    await links.open(never)
    expect(asked).toEqual([2])
    const away = linksOf([down, { broker: 'connected', bridge: 'mismatch' }, { broker: 'connected', bridge: 'unreachable' }])
    await expect(away.links.open(never)).rejects.toMatchObject({ message: 'bridge 2 is away' })
    expect(away.asked).toEqual([2, 0, 1])
  })

  it('that turn out to be one are asked once, and the later name is dropped with an error in the log', async () => {
    const same = { ...up, dataUrl: 'ws://a' }
    const { asked, closed, lines, links } = linksOf([same, same, { ...up, dataUrl: 'ws://b', sessions: 5 }])
    await links.open(never)
    await links.open(never)
    expect([asked, closed, lines.length]).toEqual([[0, 0], [1], 1])
  })

  it('show the state of the one that would be asked', () => {
    expect(linksOf([down, { ...up, bridgeId: 'b' }]).links.status()).toMatchObject({ bridge: 'connected', bridgeId: 'b' })
  })

  it('hear what the device says where one of them is there: that one alone', async () => {
    const { said, links } = linksOf([down, up, up])
    expect([links.hasBridge, await links.publish('log', 'x'), said]).toEqual([true, true, [[1, 'x']]])
    const away = linksOf([down, down])
    expect([away.links.hasBridge, await away.links.publish('log', 'x'), away.said]).toEqual([false, false, []])
  })
})
