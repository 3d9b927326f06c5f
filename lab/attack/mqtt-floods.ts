import { type Flood, repeatAttack } from './flood.ts'
import { connectRaw, deviceLogin, pingPacket, publishPacket, type RawMqtt, stateTopicOf, subscribePacket } from './raw-mqtt.ts'

/**
 * Subscribes to what it publishes itself, and never reads: its messages pile up at the broker. Without an identity it
 * subscribes to everything, so that the messages of all others wait for it too.
 */
export const unreadSubscriber: Flood = {
  name: 'unread-subscriber',
  async run(target, signal) {
    const login = deviceLogin(target)
    const topic = stateTopicOf(login.device)
    const payload = Buffer.alloc(target.device ? 100 : 50_000, 'x')
    let sent = 0
    const attack = async () => {
      const publisher = await connectRaw(target.mqttUrl, login, signal)
      const subscriber = target.device ? publisher : await connectRaw(target.mqttUrl, { clientId: 'attacker' }, signal)
      await subscriber.send(subscribePacket(target.device ? topic : '#'))
      while (!subscriber.socket.destroyed && (await publisher.send(publishPacket(topic, payload)))) sent += 1
      for (const { socket } of [publisher, subscriber]) socket.destroy()
    }
    return { ...(await repeatAttack(attack, signal)), sent }
  },
}

type Login = ReturnType<typeof deviceLogin>

/**
 * Sends packets as fast as the bridge reads them, on a new connection when it ends one.
 * @param packets the next ones. @param count packets that one call of it returns
 */
function sendingFlood(
  name: string,
  packets: (login: Login, sent: number) => Uint8Array,
  { count = 1, begin = async () => {} }: { count?: number; begin?: (client: RawMqtt, login: Login) => Promise<void> } = {},
): Flood {
  return {
    name,
    async run(target, signal) {
      const login = deviceLogin(target)
      let sent = 0
      const attack = async () => {
        const client = await connectRaw(target.mqttUrl, login, signal)
        client.socket.resume()
        await begin(client, login)
        while (await client.send(packets(login, sent))) sent += count
      }
      return { ...(await repeatAttack(attack, signal)), sent }
    },
  }
}

/** Publishes changing retained states: each costs the bridge a transaction. */
export const stateFlood = sendingFlood('state-flood', ({ device }, sent) =>
  publishPacket(stateTopicOf(device), stateOf(sent), { qos: 1, retain: true }),
)

const stateOf = (n: number) =>
  Buffer.from(
    JSON.stringify({ v: 1, state: n % 2 ? 'ready' : 'draining', birth: 1, at: '2026-01-01T00:00:00Z', connection: n + 1 }),
  )

/** Subscribes to bridges that do not exist, each once, and to what it may not. */
export const subscribeFlood = sendingFlood('subscribe-flood', (_, sent) =>
  subscribePacket(sent % 2 ? `brim/v1/default/bridge/b${sent}/state` : `#/${'x'.repeat(7_000)}`),
)

/** Connects again at once after each connection, with a client id as long as MQTT allows every second time. */
export const reconnectFlood: Flood = {
  name: 'reconnect-flood',
  run(target, signal) {
    const login = deviceLogin(target)
    const attack = async (connections: number) => {
      const clientId = connections % 2 ? 'x'.repeat(65_000) : login.clientId
      const { socket } = await connectRaw(target.mqttUrl, { ...login, clientId }, signal)
      socket.destroy()
    }
    return repeatAttack(attack, signal, 5)
  },
}

const pingsAtOnce = 1_000
const pings = Buffer.concat(Array.from({ length: pingsAtOnce }, () => pingPacket))

/** Sends the smallest packets there are, and QoS 2 messages that it never completes. */
export const pingFlood = sendingFlood('ping-flood', () => pings, { count: pingsAtOnce, begin: openQos2 })

async function openQos2(client: RawMqtt, { device }: Login): Promise<void> {
  const payload = Buffer.alloc(1_000, 'x')
  for (let id = 1; id <= 10; id++) await client.send(publishPacket(stateTopicOf(device), payload, { qos: 2, id }))
}
