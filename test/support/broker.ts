import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type IClientOptions, type MqttClient, connect as mqttConnect } from 'mqtt'
import { startEmbeddedBroker } from '../../cloud-bridge/broker/embedded-broker.ts'
import { silentLogger } from './silent-logger.ts'
import { tempDir } from './temp-dir.ts'

export interface TestBroker extends AsyncDisposable {
  readonly url: string
}

/** The embedded broker on a free loopback port. */
export async function startBroker(): Promise<TestBroker> {
  const broker = await startEmbeddedBroker({
    host: '127.0.0.1',
    port: 0,
    maxPacketBytes: 64 * 1024,
    fleet: 'default',
    logger: silentLogger(),
  })
  return { url: broker.url, [Symbol.asyncDispose]: () => broker.close() }
}

/** Prints why and tells to skip where mosquitto is missing; under CI that is a failure. */
export function mosquittoMissing(): boolean {
  if (spawnSync('mosquitto', ['-h']).error === undefined) return false
  if (process.env.CI === 'true')
    throw new Error('mosquitto is not installed, and under CI=true tests that need it may not be skipped')
  console.log('skipped: mosquitto is not installed (apt-get install mosquitto)')
  return true
}

/** A real mosquitto on a free loopback port. */
export async function startMosquitto(): Promise<TestBroker> {
  const dir = tempDir()
  const port = await freePort()
  const config = join(dir.path, 'mosquitto.conf')
  writeFileSync(config, `listener ${port} 127.0.0.1\nallow_anonymous true\npersistence false\n`)
  const child = spawn('mosquitto', ['-c', config], { stdio: 'ignore' })
  await reachable(port, child)
  return {
    url: `mqtt://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      const gone = child.exitCode === null ? once(child, 'exit') : undefined
      child.kill('SIGTERM')
      await gone
      dir[Symbol.dispose]()
    },
  }
}

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

/** Everything published on `topic` (a filter) since now, retained messages included. */
export async function watchTopic(url: string, topic: string) {
  const client = await mqttClient(url, `watcher-${Math.random().toString(36).slice(2, 10)}`)
  const messages: { topic: string; text: string; retain: boolean }[] = []
  client.on('message', (on, payload, packet) => messages.push({ topic: on, text: payload.toString(), retain: packet.retain }))
  await client.subscribeAsync(topic, { qos: 1 })
  return { messages, [Symbol.asyncDispose]: () => client.endAsync(true) }
}

/** Resolves when the connection is gone, for whatever reason. */
export const closed = (client: MqttClient) => new Promise<void>((resolve) => client.once('close', () => resolve()))

/** Cuts the connection without DISCONNECT, as a power cut does. */
export function powerCut(client: MqttClient): void {
  client.stream.destroy()
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}

async function reachable(port: number, child: ChildProcess): Promise<void> {
  for (let attempt = 0; attempt < 200; attempt++) {
    if (child.exitCode !== null) throw new Error(`mosquitto ended with ${child.exitCode}`)
    const socket = connect(port, '127.0.0.1')
    const up = await new Promise<boolean>((resolve) => {
      socket.once('connect', () => resolve(true))
      socket.once('error', () => resolve(false))
    })
    socket.destroy()
    if (up) return
    await delay(25)
  }
  throw new Error('mosquitto did not listen within 5 s')
}
