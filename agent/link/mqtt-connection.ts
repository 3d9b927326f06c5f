import type { TLSSocket } from 'node:tls'
import { connect, type IClientOptions, MqttClient } from 'mqtt'
import { writeToStream } from 'mqtt-packet'
import { WebSocket } from 'ws'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { disableNagle } from '../../core/kit/base/no-delay.ts'
import { isUntrusted, trustHint } from '../../core/kit/base/untrusted-certificate.ts'
import { WebSocketStream } from '../../core/kit/base/websocket-stream.ts'
import { isIdTaken, isLoginRefused } from '../../core/wire/protocol/connack.ts'
import { type Delivery, publishOptions } from '../../core/wire/protocol/delivery.ts'
import type { MqttLogin } from '../../core/wire/protocol/identity.ts'
import { isWebSocketUrl, mqttSubprotocol, shownBroker } from '../../core/wire/protocol/mqtt-url.ts'

const connectTimeoutMs = 10_000
/** Proxies end connections that are idle for 60 s. */
const keepaliveS = 30

// MQTT.js would prepare a buffer for each 16-bit number, which takes 8 MB.
writeToStream.cacheNumbers = false

export interface MqttMessage {
  readonly topic: string
  readonly message: string
  readonly delivery: Delivery
}

export interface MqttConnectionOptions {
  /** Of one node: mqtt://host:port, mqtts://host:port, or of a WebSocket */
  readonly url: string
  readonly clientId: string
  /** Where there is one, `clientId` is the user name. */
  readonly login?: MqttLogin | undefined
  /** A socket that is connected already; absent: MQTT.js opens one. */
  readonly socket?: TLSSocket | undefined
  readonly will: MqttMessage
  /** The message is acknowledged when this returns. If it throws, the connection is closed without an acknowledgement. */
  readonly onMessage: (topic: string, payload: Buffer) => void
  readonly logger: Logger
}

/** One MQTT 3.1.1 connection. */
export interface MqttConnection {
  /** Resolves with the cause, if one is known, when the connection has closed. */
  readonly closed: Promise<Error | undefined>
  /** @returns whether the broker has granted all of them */
  subscribe(filters: Readonly<Record<string, Pick<Delivery, 'qos'>>>): Promise<boolean>
  /** @returns whether the broker has acknowledged it */
  publish(message: MqttMessage): Promise<boolean>
  /** @param force without a DISCONNECT packet, and without waiting for messages in flight */
  end(force: boolean): Promise<void>
}

/** @throws BrimError BROKER_UNREACHABLE, NOT_AUTHORIZED, DEVICE_ID_TAKEN */
export function connectMqtt(options: MqttConnectionOptions, signal: AbortSignal): Promise<MqttConnection> {
  const { url, clientId, login, socket, will, onMessage, logger } = options
  const settings: IClientOptions = {
    clientId: login?.clientId ?? clientId,
    protocolVersion: 4,
    ...(login ? { username: clientId, password: login.password } : {}),
    clean: true,
    reconnectPeriod: 0,
    connectTimeout: connectTimeoutMs,
    ...(isWebSocketUrl(url) ? { keepalive: keepaliveS } : {}),
    will: { topic: will.topic, payload: Buffer.from(will.message), ...publishOptions(will.delivery) },
  }
  // Handlers are attached in the turn of `connect`, before the broker can have sent anything.
  const stream = isWebSocketUrl(url) ? openWebSocket(url, socket) : socket
  const client = stream ? new MqttClient(() => stream, settings) : connect(url, settings)
  let failure: Error | undefined
  client.on('error', (error) => {
    failure = error
  })
  // MQTT.js acknowledges after this handler. The `message` event would be too late: a crash after it loses the message.
  client.handleMessage = ({ topic, payload }, acknowledge) => {
    try {
      onMessage(topic, Buffer.from(payload))
      acknowledge()
    } catch (err) {
      logger.error({ err, topic }, 'message not stored, closing the connection so that it is sent again')
      client.end(true)
    }
  }
  const closed = new Promise<Error | undefined>((resolve) => {
    client.once('close', () => {
      // Fails the callbacks of messages in flight.
      client.end(true)
      resolve(failure)
    })
  })
  const connection: MqttConnection = {
    closed,
    subscribe: (filters) =>
      new Promise((resolve) => {
        const wanted = Object.entries(filters).map(([filter, { qos }]) => [filter, { qos: login?.subscribeQos ?? qos }])
        client.subscribe(Object.fromEntries(wanted), (err, granted = []) => {
          if (err) logger.warn({ err }, "not subscribed to all of the device's topics")
          resolve(!err && granted.every(({ qos }) => qos < 128))
        })
      }),
    publish: ({ topic, message, delivery }) =>
      client.publishAsync(topic, message, publishOptions(delivery)).then(
        () => true,
        () => false,
      ),
    end: (force) => client.endAsync(force),
  }
  return new Promise((resolve, reject) => {
    const abort = () => client.end(true)
    signal.addEventListener('abort', abort, { once: true })
    const settled = () => signal.removeEventListener('abort', abort)
    client.once('connect', () => {
      settled()
      disableNagle(client.stream)
      resolve(connection)
    })
    void closed.then((cause) => {
      settled()
      reject(connectError(url, clientId, cause))
    })
  })
}

/** MQTT over WebSocket, on this socket if it is connected already. */
function openWebSocket(url: string, socket: TLSSocket | undefined): WebSocketStream {
  const options = { perMessageDeflate: false, handshakeTimeout: connectTimeoutMs }
  return new WebSocketStream(
    new WebSocket(url, mqttSubprotocol, { ...options, ...(socket ? { createConnection: () => socket } : {}) }),
  )
}

function connectError(url: string, clientId: string, cause: Error | undefined): BrimError {
  if (isIdTaken(cause))
    return new BrimError(
      'DEVICE_ID_TAKEN',
      `another device uses the id "${clientId.replace('device-', '')}" at ${shownBroker(url)}`,
      {
        cause,
        hint: 'choose another --id; or stop the other agent: "brim fleet status" at the bridge shows both',
      },
    )
  if (isLoginRefused(cause))
    return new BrimError('NOT_AUTHORIZED', `the broker ${shownBroker(url)} rejected the login of this device`, {
      cause,
      hint: 'enrol the device with "brim agent enroll"; --bridge must name the address it enrolled at',
    })
  return new BrimError('BROKER_UNREACHABLE', `the broker ${shownBroker(url)} cannot be reached`, {
    ...(cause ? { cause } : {}),
    hint: isUntrusted(cause) ? trustHint : 'is the broker running, and is the address right?',
  })
}
