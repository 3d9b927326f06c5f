import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { WebSocketServer } from 'ws'
import type { DataLink } from '../../../agent/link/data-link.ts'
import { probeBytes, probeLimits } from '../../../agent/link/link-probe.ts'
import type { Clock } from '../../../core/kit/base/clock.ts'
import { ToBridge, type ToDevice } from '../../../core/wire/protocol/messages.ts'
import { decodeProbe, encodeProbe, isProbe, maxProbeBytes, type Probe } from '../../../core/wire/protocol/probe.ts'
import { portOf } from '../../../lab/cluster/relay.ts'
import { dataLinkTo } from '../../support/data-link.ts'
import { startDataPlane, testModelId } from '../../support/data-plane.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { scriptedPart } from '../../support/scripted-part.ts'
import { startSlowLink } from '../../support/slow-link.ts'

const never = new AbortController().signal
const links: DataLink[] = []
afterEach(async () => {
  await Promise.all(links.splice(0).map((link) => link.close()))
})

async function linkTo(url: string, clock: Clock): Promise<DataLink> {
  const link = dataLinkTo(url, { clock, random: { next: () => 0.5 } })
  links.push(link)
  await expect.poll(() => link.connected).toBe(true)
  return link
}

describe('an idle link', () => {
  it('is measured both ways by one probe of a few tens of KiB', async () => {
    const clock = fakeClock()
    const rates = { upBytesPerS: 50_000, downBytesPerS: 200_000 }
    await using plane = await startDataPlane(scriptedPart())
    await using slow = await startSlowLink(portOf(plane.dataUrl), rates, clock)
    const link = await linkTo(`ws://127.0.0.1:${slow.port}/v1/data`, clock)
    await expect.poll(() => link.rates?.rttS).toBeGreaterThan(0)
    expect(link.rates).toMatchObject({ upBytesPerS: undefined, downBytesPerS: undefined })
    const before = slow.bytesUp
    await clock.advance(probeLimits.quietMs)
    await expect.poll(() => link.rates?.downBytesPerS).toBeDefined()
    // The clock may run past the moment of the probe by what hello and welcome took: 3 ms of 250.
    expect(Math.abs(link.rates!.upBytesPerS! / rates.upBytesPerS - 1)).toBeLessThan(0.1)
    expect(Math.abs(link.rates!.downBytesPerS! / rates.downBytesPerS - 1)).toBeLessThan(0.1)
    expect(slow.bytesUp - before).toBeLessThan(2 * probeBytes + 1024)
  })

  it('is not probed until its sessions have closed', async () => {
    const clock = fakeClock()
    await using bridge = await probedBridge()
    const link = await linkTo(bridge.url, clock)
    const session = await link.open(testModelId, never)
    for (let looks = 0; looks < 3; looks++) await clock.advance(probeLimits.quietMs)
    // The session was opened over the same connection, so all earlier messages have arrived.
    const other = await link.open(testModelId, never)
    expect(bridge.probes).toEqual([])
    session.close()
    other.close()
    await clock.advance(2 * probeLimits.quietMs)
    await expect.poll(() => bridge.probes).toMatchObject([{ want: 0, payload: { length: probeBytes } }])
  })

  it('abandons a probe without a measurement when a session opens', async () => {
    const clock = fakeClock()
    await using bridge = await probedBridge()
    const link = await linkTo(bridge.url, clock)
    await clock.advance(probeLimits.quietMs)
    await expect.poll(() => bridge.probes.length).toBe(1)
    await link.open(testModelId, never)
    bridge.answer({ seq: bridge.probes[0]!.seq, want: 0, payload: new Uint8Array() })
    await link.open(testModelId, never)
    await link.open(testModelId, never)
    expect(bridge.probes).toHaveLength(1)
    expect(link.rates).toMatchObject({ upBytesPerS: undefined, measuredS: undefined })
  })

  it('is not measured by a reply of the wrong size', async () => {
    const clock = fakeClock()
    await using bridge = await probedBridge()
    const link = await linkTo(bridge.url, clock)
    await clock.advance(probeLimits.quietMs)
    await expect.poll(() => bridge.probes.length).toBe(1)
    const { seq } = bridge.probes[0]!
    bridge.answer({ seq: seq + 1, want: 0, payload: new Uint8Array() })
    bridge.answer({ seq, want: 0, payload: new Uint8Array(9) })
    bridge.answer({ seq, want: 0, payload: new Uint8Array(maxProbeBytes + 1) })
    const session = await link.open(testModelId, never)
    expect(link.rates?.upBytesPerS).toBeUndefined()
    session.close()
  })

  it('is not probed if the bridge does not announce support', async () => {
    const clock = fakeClock()
    await using bridge = await probedBridge({ answersProbes: false })
    const link = await linkTo(bridge.url, clock)
    await clock.advance(3 * probeLimits.quietMs)
    await link.open(testModelId, never)
    expect(bridge.probes).toEqual([])
    expect(link.isResponsive).toBe(true)
  })
})

/** A real WebSocket server that opens sessions; the test answers its probes. */
async function probedBridge({ answersProbes = true } = {}) {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 })
  await once(server, 'listening')
  const probes: Probe[] = []
  const send = (data: string | Uint8Array) => {
    for (const client of server.clients) client.send(data)
  }
  const sendMessage = (message: ToDevice) => send(JSON.stringify(message))
  let sessions = 0
  server.on('connection', (socket) => {
    socket.on('message', (data: Buffer, isBinary) => {
      if (isBinary) return isProbe(data) ? void probes.push(decodeProbe(Uint8Array.from(data))) : undefined
      const message = ToBridge.parse(JSON.parse(data.toString()))
      const probing = answersProbes ? { probeBytes: maxProbeBytes } : {}
      if (message.type === 'hello') sendMessage({ type: 'welcome', v: 1, bridge: 'strange', modelId: testModelId, ...probing })
      if (message.type !== 'open') return
      sessions += 1
      const terms = { epoch: 1, held: 0, moved: false, chunkTokens: 8, frameTokens: 64, draftLimit: 2 }
      sendMessage({ type: 'opened', request: message.request, session: sessions.toString(16).padStart(16, '0'), ...terms })
    })
  })
  return {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    probes,
    answer: (probe: Probe) => send(encodeProbe(probe)),
    async [Symbol.asyncDispose]() {
      for (const client of server.clients) client.terminate()
      await new Promise((done) => server.close(done))
    },
  }
}
