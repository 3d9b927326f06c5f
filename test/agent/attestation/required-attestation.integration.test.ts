import { createPublicKey, randomBytes, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type WebSocket, WebSocketServer } from 'ws'
import { RequiredAttestation } from '../../../agent/attestation/required-attestation.ts'
import { sevSnpVerifier } from '../../../agent/attestation/sev-snp.ts'
import type { DataLink, DataLinkOptions } from '../../../agent/link/data-link.ts'
import type { LinkCredentials } from '../../../agent/link/ports.ts'
import { type Clock, systemClock } from '../../../core/kit/base/clock.ts'
import { connectPinned } from '../../../core/kit/base/pinned-socket.ts'
import { pinOf } from '../../../core/kit/base/tls-pin.ts'
import { attestedData, type Evidence } from '../../../core/wire/protocol/attestation.ts'
import { dataPath, type ToDevice } from '../../../core/wire/protocol/messages.ts'
import { onLoopback } from '../../../lab/cluster/loopback-server.ts'
import { dataLinkTo } from '../../support/data-link.ts'
import { testModelId } from '../../support/data-plane.ts'
import { recordingLogger } from '../../support/recording-logger.ts'
import { snpMachine, testPolicy } from '../../support/snp-machine.ts'

const pem = (name: string) => readFileSync(fileURLToPath(new URL(`../../fixtures/tls/${name}.pem`, import.meta.url)), 'utf8')
const keyOf = (name: string) => createPublicKey(pem(`${name}.key`))
const pin = pinOf(new X509Certificate(pem('first.cert')).publicKey)
const never = new AbortController().signal
const machine = snpMachine()
const attestation = new RequiredAttestation(testPolicy(), sevSnpVerifier(machine.roots))

/** What the bridge answers to a `hello` with this challenge: evidence, something unreadable, or no message at all. */
type Show = (nonce: string) => Evidence | object | undefined | 'silence'
const genuine: Show = (nonce) => machine.evidence(attestedData(nonce, keyOf('first')))

const opened: AsyncDisposable[] = []
const links: DataLink[] = []
afterEach(async () => {
  await Promise.all(links.splice(0).map((link) => link.close()))
  for (const one of opened.splice(0)) await one[Symbol.asyncDispose]()
})

/** A bridge under an attacker's control: it shows what the test says, accepts everything, and keeps all that it gets. */
async function attackersBridge(show: Show) {
  const received: string[] = []
  const nonces: string[] = []
  const sockets: WebSocket[] = []
  const server = createServer({ cert: pem('first.cert'), key: pem('first.key') })
  const sessions = new WebSocketServer({ server, path: dataPath })
  const bridge = { show }
  sessions.on('connection', (socket) => {
    sockets.push(socket)
    const send = (message: ToDevice | object) => socket.send(JSON.stringify(message))
    socket.on('message', (data: Buffer, isBinary) => {
      if (isBinary) return void received.push('frame')
      const message = JSON.parse(data.toString()) as { type: string; nonce: string; request: number; session?: string }
      received.push(message.type)
      if (message.type === 'hello') {
        nonces.push(message.nonce)
        const evidence = bridge.show(message.nonce)
        if (evidence !== 'silence')
          send({ type: 'welcome', v: 1, bridge: 'strange', modelId: testModelId, early: true, evidence })
      }
      const terms = { epoch: 0, held: 0, moved: false, chunkTokens: 8, frameTokens: 64, draftLimit: 2 }
      if (message.type === 'open')
        send({ type: 'opened', request: message.request, session: message.session ?? 'ab'.repeat(8), ...terms })
    })
  })
  const { port, ...closing } = await onLoopback(server)
  opened.push(closing)
  return {
    port,
    url: `wss://127.0.0.1:${port}${dataPath}`,
    received,
    nonces,
    showNow: (next: Show) => {
      bridge.show = next
    },
    drop() {
      for (const socket of sockets.splice(0)) socket.terminate()
    },
  }
}

/** Of a device that has pinned the bridge's key. */
const credentials = (url: string): LinkCredentials => ({
  bridge: 'strange',
  dataUrl: url,
  token: async () => 'token',
  mqttLogin: () => Promise.reject(new Error('not used')),
  dial: async (to, signal) => (to.startsWith('wss:') ? connectPinned(to, [pin], signal) : undefined),
})

function linkTo(url: string, options: Partial<DataLinkOptions> = {}): DataLink {
  const link = dataLinkTo(url, { credentials: credentials(url), attestation, ...options })
  links.push(link)
  return link
}

const rows = { rows: 1, width: 2, half: Uint16Array.of(1, 2) }
const open = (link: DataLink) => link.open(testModelId, never, { early: true })
const refusal = (reason: string) => ({
  code: 'ATTESTATION_REFUSED',
  message: expect.stringContaining(`(${reason})`),
  hint: expect.any(String),
})

describe('a device that requires attestation', () => {
  it('opens sessions at a bridge whose report is of this connection, and logs what it has accepted', async () => {
    const bridge = await attackersBridge(genuine)
    const { logger, lines } = recordingLogger('info')
    const session = await open(linkTo(bridge.url, { logger }))
    void session.exchange(0, rows, 1).catch(() => {})
    await expect.poll(() => bridge.received).toEqual(['hello', 'open', 'frame'])
    expect(lines).toContainEqual(expect.objectContaining({ msg: 'evidence of the bridge accepted', product: 'milan' }))
  })

  const yesterday = genuine('00'.repeat(32))
  it.each<[string, string, Show]>([
    ['no evidence', 'no evidence', () => undefined],
    ['evidence that is none', 'no evidence', () => ({ kind: 1 })],
    ['far more than evidence has', 'no evidence', () => ({ kind: 'sev-snp', report: 'A'.repeat(100_000), certificates: [] })],
    ['too many certificates', 'no evidence', () => ({ kind: 'sev-snp', report: 'AAAA', certificates: Array(9).fill('AAAA') })],
    ['evidence of another technology', 'unsupported', () => ({ kind: 'tdx', report: 'AAAA', certificates: [] })],
    ['a report of yesterday', 'not this connection', () => yesterday],
    ['a report about another TLS key', 'not this connection', (nonce) => machine.evidence(attestedData(nonce, keyOf('second')))],
    ['a report about another challenge', 'not this connection', () => genuine(randomBytes(32).toString('hex'))],
    [
      'a report of a machine with keys of its own',
      'certificates',
      (nonce) => snpMachine().evidence(attestedData(nonce, keyOf('first'))),
    ],
    [
      'a virtual machine that may be debugged',
      'unsafe guest',
      (nonce) => machine.evidence(attestedData(nonce, keyOf('first')), { policy: 0xb0000n }),
    ],
  ])('sends nothing but its hello to a bridge with %s', async (_, reason, show) => {
    const bridge = await attackersBridge(show)
    const { logger, lines } = recordingLogger('warn')
    const link = linkTo(bridge.url, { logger })
    // Again and again: no attempt sends more.
    for (let attempt = 0; attempt < 3; attempt++) await expect(open(link)).rejects.toMatchObject(refusal(reason))
    expect(link).toMatchObject({ connected: false, refusal: refusal(reason) })
    expect(new Set(bridge.received)).toEqual(new Set(['hello']))
    expect(new Set(bridge.nonces).size).toBe(bridge.nonces.length)
    expect(lines[0]).toMatchObject({ err: { code: 'ATTESTATION_REFUSED' } })
  })

  it('sends nothing to a bridge whose evidence never comes', async () => {
    const bridge = await attackersBridge(() => 'silence')
    const hurried: Clock = { nowMs: () => 10 * systemClock.nowMs(), sleep: (ms, signal) => systemClock.sleep(ms / 10, signal) }
    const link = linkTo(bridge.url, { clock: hurried })
    await expect.poll(() => bridge.received).toContain('hello')
    await expect(open(link)).rejects.toMatchObject({ code: 'BRIDGE_UNREACHABLE' })
    expect(new Set(bridge.received)).toEqual(new Set(['hello']))
  })

  it('checks again after each interruption: rows of an early session wait for the evidence of their connection', async () => {
    const bridge = await attackersBridge(genuine)
    const link = linkTo(bridge.url)
    await open(link)
    // Of a connection whose terms are known, a session sends rows at once.
    const early = await open(link)
    void early.exchange(0, rows, 1).catch(() => {})
    await expect.poll(() => bridge.received).toContain('frame')

    bridge.showNow(() => undefined)
    bridge.drop()
    await expect.poll(() => link.connected).toBe(false)
    bridge.received.length = 0
    await expect(open(link)).rejects.toMatchObject(refusal('no evidence'))
    expect(new Set(bridge.received)).toEqual(new Set(['hello']))

    bridge.showNow(genuine)
    const again = await open(link)
    void again.exchange(0, rows, 1).catch(() => {})
    await expect.poll(() => bridge.received).toContain('frame')
    expect(link.refusal).toBeUndefined()
    expect(new Set(bridge.nonces).size).toBe(bridge.nonces.length)
  })
})

describe('without TLS', () => {
  let port: number
  const received: string[] = []
  beforeEach(async () => {
    const server = new WebSocketServer({ host: '127.0.0.1', port: 0 })
    await once(server, 'listening')
    opened.push({ [Symbol.asyncDispose]: async () => void (await new Promise((done) => server.close(done))) })
    port = (server.address() as { port: number }).port
    received.length = 0
    server.on('connection', (socket) =>
      socket.on('message', (data: Buffer, isBinary) => {
        received.push(isBinary ? 'frame' : (JSON.parse(data.toString()) as { type: string }).type)
        const evidence = genuine((JSON.parse(data.toString()) as { nonce: string }).nonce)
        socket.send(JSON.stringify({ type: 'welcome', v: 1, bridge: 'strange', modelId: testModelId, evidence }))
      }),
    )
  })

  it('no bridge is trusted: there is no key for a report to be about', async () => {
    const link = linkTo(`ws://127.0.0.1:${port}${dataPath}`)
    await expect(open(link)).rejects.toMatchObject(refusal('not encrypted'))
    expect(new Set(received)).toEqual(new Set(['hello']))
  })
})

it('a device that does not require it sends no challenge, and opens sessions at any bridge', async () => {
  const bridge = await attackersBridge(() => undefined)
  await open(linkTo(bridge.url, { attestation: undefined }))
  expect(bridge.nonces).toEqual([undefined])
})
