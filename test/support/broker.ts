import { spawnSync } from 'node:child_process'
import { type IClientOptions, type MqttClient, connect as mqttConnect } from 'mqtt'
import type { z } from 'zod'
import { startEmbeddedBroker } from '../../cloud-bridge/broker/embedded-broker.ts'
import { BridgeLimits } from '../../cloud-bridge/limits.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { startMosquitto as launchMosquitto, mosquittoProblem } from '../../lab/cluster/mosquitto.ts'
import { natsProblem } from './nats.ts'
import { isMissing } from './prerequisites.ts'
import { silentLogger } from './silent-logger.ts'

export interface TestBroker extends AsyncDisposable {
  readonly url: string
  /** Stops the broker and starts another on the same port, without the retained messages of the first. */
  restart(): Promise<void>
}

/** The packet limit of a bridge, and of docs/brokers/mosquitto.conf. */
export const packetLimitBytes = 256 * 1024

export interface TestBrokerOptions {
  readonly limits?: z.input<typeof BridgeLimits>
  readonly logger?: Logger
}

/** The embedded broker on a free loopback port. It requires no proof of identity. */
export async function startBroker({ limits = {}, logger = silentLogger() }: TestBrokerOptions = {}): Promise<TestBroker> {
  const options = { host: '127.0.0.1', limits: BridgeLimits.parse(limits), fleet: 'default', clock: systemClock, logger }
  const start = (port: number) => startEmbeddedBroker({ ...options, port })
  let broker = await start(0)
  const { url } = broker
  return {
    url,
    async restart() {
      await broker.close()
      broker = await start(Number(new URL(url).port))
    },
    [Symbol.asyncDispose]: () => broker.close(),
  }
}

/** Whether to skip a test that needs mosquitto, or a client program of it. @throws Error under CI=true */
export function mosquittoMissing(program: 'mosquitto' | 'mosquitto_sub' = 'mosquitto'): boolean {
  if (program === 'mosquitto_sub') return isMissing(program, spawnSync(program, ['--help']).error === undefined)
  const problem = mosquittoProblem()
  return problem !== undefined && isMissing(problem, false)
}

/** Whether to skip a test that needs NATS. @throws Error under CI=true */
export function natsMissing(): boolean {
  const problem = natsProblem()
  return problem !== undefined && isMissing(problem, false)
}

/** A real mosquitto that accepts every client, on a free loopback port. */
export const startMosquitto = () => launchMosquitto({ guarded: false })

/** A connected MQTT 3.1.1 client that does not reconnect. */
export async function mqttClient(url: string, clientId: string, options: IClientOptions = {}): Promise<MqttClient> {
  const client = mqttConnect(url, { clientId, protocolVersion: 4, reconnectPeriod: 0, ...options })
  await new Promise<void>((resolve, reject) => {
    client.once('connect', () => resolve())
    client.on('error', reject)
    client.once('close', () => reject(new Error('closed before CONNACK')))
  })
  return client
}

/** Records everything published on `topic` (a filter) from now on, and retained messages. */
export async function watchTopic(url: string, topic: string, login: { username?: string; password?: string } = {}) {
  const client = await mqttClient(url, login.username ?? `watcher-${Math.random().toString(36).slice(2, 10)}`, login)
  const messages: { topic: string; text: string; retain: boolean }[] = []
  client.on('message', (on, payload, packet) => messages.push({ topic: on, text: payload.toString(), retain: packet.retain }))
  await client.subscribeAsync(topic, { qos: 1 })
  return { messages, [Symbol.asyncDispose]: () => client.endAsync(true) }
}

/** Resolves when the connection has closed, for any reason. */
export const closed = (client: MqttClient) => new Promise<void>((resolve) => client.once('close', () => resolve()))

/** Cuts the connection without DISCONNECT, as a power cut does. */
export function powerCut(client: MqttClient): void {
  client.stream.destroy()
}
