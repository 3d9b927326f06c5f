import { createSocket } from 'node:dgram'
import { createServer } from 'node:net'
import fc from 'fast-check'
import { describe, expect, it, onTestFinished } from 'vitest'
import { findBridges } from '../../../agent/link/find-bridges.ts'
import { searchBridges } from '../../../agent/parts/bridge-search.ts'
import { type AnnouncedBridge, announceBridge } from '../../../cloud-bridge/link/announce-bridge.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { createClosers } from '../../../core/kit/base/closers.ts'
import { openMulticastDns } from '../../../core/kit/listen/multicast-dns.ts'
import type { BridgeAnnouncement } from '../../../core/wire/protocol/announcement.ts'
import { recordingLogger } from '../../support/recording-logger.ts'

const pin = 'kQ3vkQ3vkQ3vkQ3vkQ3vkQ3vkQ3vkQ3vkQ3vkQ3vkQ3'
const bridge: BridgeAnnouncement = { id: 'bridge-1', fleet: 'default', version: '0.3.0', path: '/', pin }

/** A network of this machine alone: its loopback, and a port that no other test uses. */
async function freeNetwork() {
  const socket = createSocket('udp4')
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve))
  const { port } = socket.address()
  await new Promise<void>((resolve) => socket.close(resolve))
  return { address: '127.0.0.1', port }
}

async function announce(at: AnnouncedBridge['at'], described = bridge, port = 7070) {
  const announced = await announceBridge({
    port,
    describe: () => described,
    at,
    clock: systemClock,
    logger: recordingLogger('debug').logger,
  })
  let isOpen = true
  const close = async () => {
    if (isOpen) await announced.close()
    isOpen = false
  }
  onTestFinished(close)
  return { ...announced, close }
}

const find = (at: AnnouncedBridge['at'], forMs = 400) => findBridges(at, forMs, systemClock, new AbortController().signal)

/** Sends what another machine of the network may send. */
async function openStranger(at: { address: string; port: number }) {
  const mdns = await openMulticastDns(at, () => {})
  const socket = createSocket('udp4')
  await new Promise<void>((resolve) => socket.bind(0, at.address, resolve))
  socket.setMulticastInterface(at.address)
  onTestFinished(() => {
    socket.close()
    mdns.destroy()
  })
  return {
    answer: (name: string, txt: Record<string, string>, port = 7070) =>
      mdns.publish({ name, host: 'stranger.local', type: 'brim', port, txt, probe: false }),
    send: (bytes: Uint8Array) => new Promise((resolve) => socket.send(bytes, at.port, '224.0.0.251', resolve)),
  }
}

describe('bridges in the network of an agent', () => {
  it('are found by their announcement, at the address it came from, until they take it back', async () => {
    const at = await freeNetwork()
    const announced = await announce(at)
    const { pin: _, ...plain } = bridge
    await announce(at, { ...plain, id: 'bridge-2', fleet: 'attic' }, 7071)
    expect((await find(at)).toSorted((one, other) => one.id.localeCompare(other.id))).toEqual([
      { id: 'bridge-1', fleet: 'default', version: '0.3.0', pin, url: 'https://127.0.0.1:7070/' },
      { id: 'bridge-2', fleet: 'attic', version: '0.3.0', url: 'http://127.0.0.1:7071/' },
    ])
    await announced.close()
    expect((await find(at)).map(({ id }) => id)).toEqual(['bridge-2'])
  })

  it('are announced with the TLS key that they have now', async () => {
    const at = await freeNetwork()
    let present = pin
    const announced = await announceBridge({
      port: 7070,
      describe: () => ({ ...bridge, pin: present }),
      at,
      clock: systemClock,
      logger: recordingLogger('debug').logger,
    })
    onTestFinished(announced.close)
    present = pin.replaceAll('Q', 'R')
    announced.update()
    expect((await find(at)).map((found) => found.pin)).toEqual([present])
  })

  it('are logged by an agent that knows none, with the command that enrols it, and nothing is sent to them', async () => {
    const at = await freeNetwork()
    let connections = 0
    const fake = createServer(() => {
      connections += 1
    })
    await new Promise<void>((resolve) => fake.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void fake.close())
    const address = fake.address() as { port: number }
    // A spoofed one: the key is not that of the real bridge.
    await announce(at, { ...bridge, pin: pin.replaceAll('Q', 'x') }, address.port)
    const { logger, lines } = recordingLogger('warn')
    const closers = createClosers()
    onTestFinished(() => closers.closeAll())
    const config = { id: 'jetson-01', fleet: 'attic', stateDir: '/var/lib/brim', bridges: undefined }
    // Time passes tenfold.
    const clock = { ...systemClock, sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / 10, signal) }
    const base = { config, clock, closers, logger } as unknown as Parameters<typeof searchBridges>[0]
    searchBridges(base, { bridges: ['mqtt://127.0.0.1:1883'], at: () => undefined }, { hasBridge: false }, at)
    await expect.poll(() => lines.length).toBe(1)
    expect(lines[0]).toMatchObject({
      msg: 'bridge found in this network, not used',
      url: `https://127.0.0.1:${address.port}/`,
      why: "its fleet is default, this agent's attic",
      next: expect.stringContaining('brim agent enroll --id jetson-01 --state-dir /var/lib/brim --token-file token'),
    })
    expect(connections).toBe(0)
  })

  it('are not looked for by an agent with a configured bridge, an enrolment, or a bridge on its machine', async () => {
    const at = await freeNetwork()
    await announce(at)
    const { logger, lines } = recordingLogger('debug')
    const closers = createClosers()
    const sleeps: number[] = []
    const clock = { ...systemClock, sleep: async (ms: number) => void sleeps.push(ms) }
    const search = (bridges: string[] | undefined, isEnrolled: boolean, hasBridge: boolean) => {
      const config = { id: 'jetson-01', fleet: 'default', stateDir: '/s', bridges }
      const base = { config, clock, closers, logger } as unknown as Parameters<typeof searchBridges>[0]
      const credentials = (isEnrolled ? {} : undefined) as ReturnType<Parameters<typeof searchBridges>[1]['at']>
      searchBridges(base, { bridges: ['mqtt://127.0.0.1:1883'], at: () => credentials }, { hasBridge }, at)
    }
    search(['mqtt://10.0.0.5'], false, false)
    search(undefined, true, false)
    expect(sleeps).toEqual([])
    search(undefined, false, true)
    await closers.closeAll()
    expect(sleeps).toHaveLength(1)
    expect(lines).toEqual([])
  })
})

describe('a hostile network', () => {
  it('cannot make an agent show what is no announcement: control characters, huge texts, missing fields', async () => {
    const at = await freeNetwork()
    const stranger = await openStranger(at)
    stranger.answer('\u001b]0;pwned\u0007\u202e', { ...bridge, fleet: '\u001b[2J' } as Record<string, string>)
    stranger.answer('huge', { ...bridge, fleet: 'x'.repeat(200), more: 'y'.repeat(250) } as Record<string, string>)
    stranger.answer('path', { ...bridge, path: '//evil.example/$(reboot)' } as Record<string, string>)
    stranger.answer('key', { ...bridge, pin: 'short' } as Record<string, string>)
    stranger.answer('empty', {})
    await announce(at)
    expect((await find(at)).map(({ id }) => id)).toEqual(['bridge-1'])
  })

  it('ends the search with 1,000 answers', async () => {
    const at = await freeNetwork()
    const stranger = await openStranger(at)
    for (let count = 0; count < 1_000; count += 1)
      stranger.answer(`bridge-${count}`, { ...bridge, id: `bridge-${count}` } as Record<string, string>, 1_000 + count)
    const found = await find(at, 60_000)
    expect(found.length).toBeGreaterThan(0)
    expect(found.length).toBeLessThanOrEqual(64)
  })

  it('cannot end either process with packets of any bytes, or real ones with some bytes changed', async () => {
    const at = await freeNetwork()
    const listener = createSocket({ type: 'udp4', reuseAddr: true })
    await new Promise<void>((resolve) => listener.bind(at.port, '0.0.0.0', resolve))
    listener.addMembership('224.0.0.251', at.address)
    onTestFinished(() => void listener.close())
    const heard = new Promise<Uint8Array>((resolve) => listener.once('message', resolve))
    await announce(at)
    const real = await heard
    const stranger = await openStranger(at)
    const searching = find(at, 1_500)
    const anyHeader = fc.constantFrom([0, 0, 0x84, 0], [0, 0, 0, 0], [0, 0, 0x80, 0])
    const anyCounts = fc.array(fc.nat(3), { minLength: 8, maxLength: 8 })
    const anyBytes = fc
      .tuple(anyHeader, anyCounts, fc.uint8Array({ maxLength: 200 }))
      .map(([header, counts, rest]) => Uint8Array.from([...header, ...counts, ...rest]))
    const changed = fc
      .array(fc.tuple(fc.nat(real.length - 1), fc.nat(255)), { minLength: 1, maxLength: 6 })
      .map((changes) => changes.reduce((bytes, [index, value]) => bytes.with(index, value), Uint8Array.from(real)))
    await fc.assert(
      fc.asyncProperty(fc.oneof(anyBytes, changed), async (bytes) => void (await stranger.send(bytes))),
      { numRuns: 500 },
    )
    await searching
    expect((await find(at)).map(({ id }) => id)).toEqual(['bridge-1'])
  })
})
