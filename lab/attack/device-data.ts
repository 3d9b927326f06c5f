import { setTimeout as sleep } from 'node:timers/promises'
import { connectAsync, type MqttClient } from 'mqtt'
import { type DeviceTopic, deviceTopic } from '../../core/wire/protocol/topics.ts'
import { type AttackTarget, type Flood, repeatAttack } from './flood.ts'
import { deviceLogin } from './raw-mqtt.ts'

const retryMs = 100
/** Time for the bridge to dispatch a job. */
const dispatchMs = 2_000
/** Pieces of one answer, 64 KB each. */
const maxPieces = 200
const at = '2026-01-01T00:00:00Z'

interface Attacker {
  /** Publishes to the bridge. @throws Error when the connection has ended */
  publish(leaf: DeviceTopic, message: object): Promise<void>
  /** The last message about jobs. */
  readonly order: { readonly type: string; readonly job: string; readonly attempt: number } | undefined
}

/** Attacks as a device that takes jobs, on a new connection when the bridge ends one, until the signal is aborted. */
async function asDevice(target: AttackTarget, signal: AbortSignal, attack: (attacker: Attacker) => Promise<void>): Promise<void> {
  const { device, clientId, password } = deviceLogin(target)
  const login = password === undefined ? {} : { username: clientId, password }
  const connect = async () => {
    const client = await connectAsync(target.mqttUrl, { clientId, ...login, protocolVersion: 4, reconnectPeriod: 0 })
    client.on('error', () => {})
    await attackWith(client, device, signal, attack).finally(() => client.endAsync(true))
  }
  await repeatAttack(connect, signal)
}

async function attackWith(
  client: MqttClient,
  device: string,
  signal: AbortSignal,
  attack: (attacker: Attacker) => Promise<void>,
) {
  let order: Attacker['order']
  client.on('message', (_, payload) => {
    order = JSON.parse(payload.toString()) as Attacker['order']
  })
  const closed = new Promise<never>((_, reject) => client.once('close', () => reject(new Error('closed'))))
  closed.catch(() => {})
  const publish = async (leaf: DeviceTopic, message: object): Promise<void> => {
    if (signal.aborted) throw new Error('aborted')
    const sent = client.publishAsync(deviceTopic('default', device, leaf), JSON.stringify({ v: 1, ...message }), { qos: 1 })
    await Promise.race([sent, closed])
  }
  await client.subscribeAsync(deviceTopic('default', device, 'jobs'), { qos: 1 })
  // Jobs that another device could do are not taken away from it.
  await publish('state', { state: 'ready', birth: 1, at, connection: 1, jobs: ['profile'] })
  while (!signal.aborted)
    await attack({
      publish,
      get order() {
        return order
      },
    })
}

/** Takes a job and answers without end, after an event with a high number; without a job it reports about unknown ones. */
export const endlessAnswers: Flood = {
  name: 'endless-answers',
  async run(target, signal) {
    let [jobs, pieces, ended] = [0, 0, 0]
    await asDevice(target, signal, async (attacker) => {
      const submitted = await submitProfile(target, signal)
      const isSent = () => attacker.order?.type === 'run' && attacker.order.job === submitted
      if (submitted !== undefined) {
        jobs += 1
        for (let waitedMs = 0; waitedMs < dispatchMs && !isSent(); waitedMs += 20) await sleep(20, undefined, { signal })
      }
      const job = submitted ?? '00000000-1'
      const event = (n: number, fields: object) =>
        attacker.publish('events', { bridge: 'bridge-1', job, attempt: 1, n, at, ...fields })
      const piece = { type: 'text', text: 'x'.repeat(64 * 1_024) }
      await event(1, { type: 'running' })
      await event(2 ** 31 - 1, { ...piece, from: 0 })
      for (let n = 2; n < maxPieces; n++) {
        await event(n, { ...piece, from: n })
        pieces += 1
        if (attacker.order?.type !== 'cancel') continue
        ended += 1
        return
      }
    })
    return { jobs, pieces, ended }
  },
}

/** @returns undefined: the bridge did not accept the job */
async function submitProfile(target: AttackTarget, signal: AbortSignal): Promise<string | undefined> {
  const { httpUrl, apiKey } = target
  const headers = {
    'content-type': 'application/json',
    ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
  }
  const body = JSON.stringify({ kind: 'profile', input: {}, device: deviceLogin(target).device, deadlineS: 60 })
  const response = await fetch(`${httpUrl}/v1/jobs`, { method: 'POST', headers, body, signal })
  const { id } = (await response.json()) as { id?: string }
  // The bridge has not read the state of this device yet.
  if (response.status === 404) {
    await sleep(retryMs, undefined, { signal })
    return submitProfile(target, signal)
  }
  return response.ok ? id : undefined
}

/** Publishes telemetry and log lines as large as the bridge stores them, and samples that are larger. */
export const telemetryFlood: Flood = {
  name: 'telemetry-flood',
  async run(target, signal) {
    let [samples, lines] = [0, 0]
    const fields = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`field-${i}`, 'x'.repeat(500)]))
    await asDevice(target, signal, async ({ publish }) => {
      const measured = { birth: 1, link: null, speed: { prefillTokensPerS: null, draftStepMs: null } }
      // No two are alike: the bridge stores the difference.
      const causes = [String(samples).padEnd(samples % 10 === 9 ? 100_000 : 15_000, 'x')]
      const atMs = Date.UTC(2026, 0, 1) + samples
      await publish('telemetry', { at: new Date(atMs).toISOString(), ...measured, throttling: { isThrottled: true, causes } })
      samples += 1
      await publish('log', { at, birth: 1, level: 'warn', component: 'x', message: 'x'.repeat(500), fields, dropped: 0 })
      lines += 1
    })
    return { samples, lines }
  },
}
