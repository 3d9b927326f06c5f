import { once } from 'node:events'
import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { generate } from 'mqtt-packet'
import { deviceTopic } from '../../core/wire/protocol/topics.ts'
import type { AttackTarget } from './flood.ts'

/** MQTT 3.1.1 as an attacker speaks it: it writes what it likes, and reads only what it wants to. */
export interface RawMqtt {
  readonly socket: Socket
  /** @returns false when the connection has closed */
  send(packet: Uint8Array): Promise<boolean>
}

export interface RawLogin {
  readonly clientId: string
  readonly password?: string | undefined
}

/**
 * Connects, and reads up to the CONNACK.
 * @throws Error when the broker does not accept the connection
 */
export async function connectRaw(mqttUrl: string, login: RawLogin, signal: AbortSignal): Promise<RawMqtt> {
  const url = new URL(mqttUrl)
  const address = { host: url.hostname, port: Number(url.port) }
  const socket = url.protocol === 'mqtts:' ? connectTls({ ...address, rejectUnauthorized: false }) : connectTcp(address)
  socket.setNoDelay(true)
  const abort = () => socket.destroy()
  signal.addEventListener('abort', abort, { once: true })
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  void closed.then(() => signal.removeEventListener('abort', abort))
  socket.on('error', () => {})
  socket.write(connectPacket(login))
  const connack = await Promise.race([once(socket, 'data'), closed])
  const [bytes] = connack ?? []
  if (!(bytes instanceof Uint8Array) || bytes[3] !== 0) {
    socket.destroy()
    throw new Error(`refused with CONNACK ${bytes instanceof Uint8Array ? bytes[3] : 'missing'}`)
  }
  socket.pause()
  return {
    socket,
    async send(packet) {
      if (socket.destroyed) return false
      if (!socket.write(packet)) await Promise.race([new Promise((resolve) => socket.once('drain', resolve)), closed])
      return !socket.destroyed
    },
  }
}

/** The attacker as its enrolled device, or as any device where it has none. */
export const deviceLogin = ({ device }: AttackTarget): RawLogin & { readonly device: string } => ({
  device: device?.id ?? 'attacker',
  clientId: `device-${device?.id ?? 'attacker'}`,
  password: device?.token,
})

export const stateTopicOf = (device: string) => deviceTopic('default', device, 'state')

export const subscribePacket = (topic: string) => generate({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic, qos: 0 }] })

export const publishPacket = (
  topic: string,
  payload: Buffer,
  { qos = 0, retain = false, id = 1 }: { qos?: 0 | 1 | 2; retain?: boolean; id?: number } = {},
) => generate({ cmd: 'publish', topic, payload, qos, retain, dup: false, messageId: id })

export const pingPacket = generate({ cmd: 'pingreq' })

function connectPacket({ clientId, password }: RawLogin): Buffer {
  const identity = password === undefined ? {} : { username: clientId, password: Buffer.from(password) }
  const version = { protocolId: 'MQTT', protocolVersion: 4 } as const
  return generate({ cmd: 'connect', ...version, clean: true, keepalive: 0, clientId, ...identity })
}
