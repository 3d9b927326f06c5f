import { once } from 'node:events'
import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
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

export const stateTopicOf = (device: string, fleet = 'default') => `brim/v1/${fleet}/device/${device}/state`

export const subscribePacket = (filter: string, qos: 0 | 1 = 0) => packet(0x82, u16(1), text(filter), Uint8Array.of(qos))

export function publishPacket(
  topic: string,
  payload: Uint8Array,
  { qos = 0, retain = false, id = 1 }: { qos?: 0 | 1 | 2; retain?: boolean; id?: number } = {},
): Uint8Array {
  return packet(0x30 | (qos << 1) | (retain ? 1 : 0), text(topic), qos > 0 ? u16(id) : new Uint8Array(), payload)
}

export const pingPacket = Uint8Array.of(0xc0, 0)

function connectPacket({ clientId, password }: RawLogin): Uint8Array {
  const [flags, ...fields] = password === undefined ? [0x02] : [0xc2, text(clientId), text(password)]
  return packet(0x10, text('MQTT'), Uint8Array.of(4, flags), u16(0), text(clientId), ...fields)
}

function packet(first: number, ...parts: Uint8Array[]): Uint8Array {
  const body = Buffer.concat(parts)
  return Buffer.concat([Uint8Array.of(first, ...remainingLength(body.length)), body])
}

function remainingLength(bytes: number): number[] {
  const rest = Math.floor(bytes / 128)
  return rest === 0 ? [bytes] : [(bytes % 128) + 128, ...remainingLength(rest)]
}

const u16 = (value: number) => Uint8Array.of((value >> 8) & 0xff, value & 0xff)

function text(value: string): Uint8Array {
  const bytes = Buffer.from(value)
  return Buffer.concat([u16(bytes.length), bytes])
}
