import { createPublicKey, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { sevSnpVerifier } from '../../../agent/attestation/sev-snp.ts'
import type { Attester } from '../../../cloud-bridge/attestation/attester.ts'
import type { Certificate } from '../../../cloud-bridge/http/certificate.ts'
import { type Clock, systemClock } from '../../../core/kit/base/clock.ts'
import { attestedData } from '../../../core/wire/protocol/attestation.ts'
import { ToDevice } from '../../../core/wire/protocol/messages.ts'
import { startDataPlane } from '../../support/data-plane.ts'
import { scriptedPart } from '../../support/scripted-part.ts'
import { snpMachine, testPolicy } from '../../support/snp-machine.ts'

const pem = (name: string) => readFileSync(fileURLToPath(new URL(`../../fixtures/tls/${name}.pem`, import.meta.url)), 'utf8')
const certificate: Certificate = { current: { cert: pem('first.cert'), key: pem('first.key') }, onChange() {}, close() {} }
const machine = snpMachine()
/** The wait for a report ends soon. */
const impatient: Clock = { ...systemClock, sleep: (ms, signal) => systemClock.sleep(ms === 5_000 ? 50 : ms, signal) }

/** What a bridge answers to the `hello` of a device. */
async function welcomeOf(url: string, nonce?: string) {
  const socket = new WebSocket(url, { rejectUnauthorized: false })
  try {
    await once(socket, 'open')
    socket.send(JSON.stringify({ type: 'hello', v: 1, device: 'jetson-01', birth: 1, nonce }))
    const [data] = (await once(socket, 'message')) as [Buffer]
    const message = ToDevice.parse(JSON.parse(data.toString()))
    if (message.type !== 'welcome') throw new Error(`answered by ${message.type}`)
    return message
  } finally {
    socket.terminate()
  }
}

describe('the welcome of a bridge in a confidential virtual machine', () => {
  const asked: Buffer[] = []
  const attester: Attester = {
    async evidenceOf(data) {
      asked.push(Buffer.from(data))
      return machine.evidence(data)
    },
  }

  it('has evidence of this connection for each device that asks, and none for others', async () => {
    await using bridge = await startDataPlane(scriptedPart(), { attester, certificate })
    for (let device = 0; device < 2; device++) {
      const nonce = randomBytes(32).toString('hex')
      const { evidence } = await welcomeOf(bridge.dataUrl, nonce)
      const data = attestedData(nonce, createPublicKey(pem('first.cert')))
      const expected = { data, policy: testPolicy(), nowMs: undefined }
      expect(sevSnpVerifier(machine.roots).verify(evidence!, expected).kind).toBe('accepted')
    }
    expect((await welcomeOf(bridge.dataUrl)).evidence).toBeUndefined()
    expect(asked).toHaveLength(2)
  })

  it('has none without TLS, where a report would be about nothing', async () => {
    await using bridge = await startDataPlane(scriptedPart(), { attester })
    asked.length = 0
    expect((await welcomeOf(bridge.dataUrl, '00'.repeat(32))).evidence).toBeUndefined()
    expect(asked).toEqual([])
  })

  it.each<[string, Attester | undefined]>([
    ['fails', { evidenceOf: () => Promise.reject(new Error('the processor is busy')) }],
    ['never comes', { evidenceOf: () => new Promise(() => {}) }],
    ['cannot be made here', undefined],
  ])('comes without evidence where a report %s', async (_, broken) => {
    await using bridge = await startDataPlane(scriptedPart(), {
      certificate,
      clock: impatient,
      ...(broken && { attester: broken }),
    })
    const welcome = await welcomeOf(bridge.dataUrl, '00'.repeat(32))
    expect(welcome.bridge).toBe('bridge-1')
    expect(welcome.evidence).toBeUndefined()
  })

  it('of a report that no device waits for any longer is not made', async () => {
    const signals: AbortSignal[] = []
    const slow: Attester = {
      evidenceOf(_, signal) {
        signals.push(signal)
        return new Promise(() => {})
      },
    }
    await using bridge = await startDataPlane(scriptedPart(), { attester: slow, certificate })
    const socket = new WebSocket(bridge.dataUrl, { rejectUnauthorized: false })
    await once(socket, 'open')
    socket.send(JSON.stringify({ type: 'hello', v: 1, device: 'jetson-01', birth: 1, nonce: '00'.repeat(32) }))
    await expect.poll(() => signals.length).toBe(1)
    expect(signals[0]?.aborted).toBe(false)
    socket.terminate()
    await expect.poll(() => signals[0]?.aborted).toBe(true)
  })
})
