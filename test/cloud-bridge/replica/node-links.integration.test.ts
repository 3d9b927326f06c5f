import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import type { Duplex } from 'node:stream'
import { afterEach, describe, expect, it } from 'vitest'
import type { Middle } from '../../../cloud-bridge/parts/middle.ts'
import type { AnnouncedNode } from '../../../cloud-bridge/replica/fleet-database.ts'
import { LinkGate } from '../../../cloud-bridge/replica/link-gate.ts'
import { NodeLinks } from '../../../cloud-bridge/replica/node-links.ts'
import { OtherNodes } from '../../../cloud-bridge/replica/other-nodes.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { silentLogger } from '../../support/silent-logger.ts'

/** Open resources of a test. */
const closers: (() => void)[] = []
afterEach(() => {
  for (const close of closers.splice(0)) close()
})

/** A node whose data plane answers with its name. */
async function nodeOf(name: string, auth = false) {
  const moves: { max: number; isUrgent: boolean }[] = []
  const state = { links: 0, sessions: 0 }
  const plane = {
    get count() {
      return state.links
    },
    upgrade: (_: IncomingMessage, socket: Duplex) => void socket.end(`served by ${name}\n`),
    moveAway: (max: number, isUrgent: boolean) => void moves.push({ max, isUrgent }),
    dropUnproven: () => [],
  }
  const sessions = {
    get count() {
      return state.sessions
    },
  }
  const clock = fakeClock()
  const gate = new LinkGate(auth)
  const links = new NodeLinks({
    middle: { plane, sessions, serving: { purge: () => {} }, close: async () => {} } as unknown as Middle,
    gate,
    others: new OtherNodes('127.0.0.1'),
    own: () => ({ node: name, pin: null, auth }),
    drainMs: 30_000,
    clock,
    logger: silentLogger(),
  })
  const server = createServer()
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    links.upgrade(request, socket, head, { address: '127.0.0.1', onAccepted: () => {} })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closers.push(() => server.close())
  const { port } = server.address() as AddressInfo
  const announced: AnnouncedNode = { node: name, url: `http://127.0.0.1:${port}`, links: 0, sessions: 0, isDraining: false }
  return { links, gate, port, state, moves, clock, announced }
}

/** What a device's WebSocket gets. */
async function linkTo({ port }: { port: number }, headers: Record<string, string> = {}): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  closers.push(() => socket.destroy())
  const lines = Object.entries({ host: 'bridge', connection: 'Upgrade', upgrade: 'websocket', ...headers })
  socket.write(`GET /v1/data HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`)
  let text = ''
  socket.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  await once(socket, 'close')
  return text
}

describe('the links of a node', () => {
  it('are passed to the node with least to do, which serves them whatever it knows of loads itself', async () => {
    const [a, b] = [await nodeOf('a'), await nodeOf('b')]
    a.state.links = 4
    for (const node of [a, b]) node.links.update([a.announced, b.announced], false, 'a')
    expect(await linkTo(a)).toBe('served by b\n')
    // To b everything seems to be at a; it does not pass on what was passed to it.
    b.state.links = 9
    expect(await linkTo(a)).toBe('served by b\n')
    expect(await linkTo(b)).toBe('served by a\n')
  })

  it('count those that were passed to a node until its next announcement', async () => {
    const [a, b] = [await nodeOf('a'), await nodeOf('b')]
    a.state.links = 2
    a.links.update([b.announced], false, 'a')
    const served = [await linkTo(a), await linkTo(a), await linkTo(a)]
    expect(served).toEqual(['served by b\n', 'served by b\n', 'served by a\n'])
  })

  it('are served here where the other node does not accept them', async () => {
    const a = await nodeOf('a')
    a.state.links = 5
    a.links.update([{ ...a.announced, node: 'gone', url: 'http://127.0.0.1:9' }], false, 'a')
    expect(await linkTo(a)).toBe('served by a\n')
  })

  it('go to a primary of an earlier release, which alone knows what their tokens prove', async () => {
    const [a, b] = [await nodeOf('a'), await nodeOf('b', true)]
    b.links.update([{ ...a.announced, links: null }], false, 'a')
    expect(await linkTo(b)).toBe('served by a\n')
    b.links.update([{ ...a.announced, links: null }], false, 'c')
    expect(await linkTo(b)).toContain('401 Unauthorized')
  })

  it('are refused to pages, without a proof, and while there is no primary to ask', async () => {
    const a = await nodeOf('a', true)
    expect(await linkTo(a, { origin: 'https://page.example' })).toContain('403 Forbidden')
    expect(await linkTo(a)).toContain('401 Unauthorized')
    a.gate.proveBy(() => Promise.reject(new Error('there is no primary')))
    expect(await linkTo(a, { authorization: 'Bearer token' })).toContain('503 Service Unavailable')
  })

  it('are sent away by a node that drains: those with sessions once their time is over; and not where no other is left', async () => {
    const [a, b] = [await nodeOf('a'), await nodeOf('b')]
    a.state.links = 3
    a.links.update([b.announced], true, 'a')
    expect(a.links.isLeaving).toBe(true)
    expect(a.moves).toEqual([{ max: 3, isUrgent: false }])
    await a.clock.advance(30_000)
    a.links.update([b.announced], true, 'a')
    expect(a.moves.at(-1)).toEqual({ max: 3, isUrgent: true })
    a.links.update([{ ...b.announced, isDraining: true }], true, 'a')
    expect(a.links.isLeaving).toBe(false)
    expect(a.moves).toHaveLength(2)
    a.links.update([b.announced], false, 'a')
    expect(a.links.isLeaving).toBe(false)
  })
})
