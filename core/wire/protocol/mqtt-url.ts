import { z } from 'zod'
import { shownUrl } from '../../kit/base/shown-url.ts'

/** Ports of MQTT, and of MQTT over TLS (IANA); over WebSocket, of HTTP. */
export const mqttPorts = { plain: 1883, tls: 8883 } as const
const defaultPorts: Readonly<Record<string, number>> = {
  'mqtt:': mqttPorts.plain,
  'mqtts:': mqttPorts.tls,
  'ws:': 80,
  'wss:': 443,
}

/** Path of MQTT over WebSocket on the HTTP port of a bridge, and its subprotocol (MQTT 3.1.1 §6). */
export const mqttPath = '/mqtt'
export const mqttSubprotocol = 'mqtt'

export const isWebSocketUrl = (url: string): boolean => /^wss?:/.test(url)

/** The URLs of a broker's nodes. One URL stands for a single node; those of several are separated by commas. */
export const brokerNodes = (url: string): string[] => url.split(/,(?=[a-z]+:\/\/)/)

/** A broker as configurations name it. */
export const brokerUrl = (protocol: RegExp, error: string) =>
  z
    .string()
    .refine((text) => brokerNodes(text).every((node) => z.url({ protocol }).safeParse(node).success), error)
    .transform(withMqttPort)

/** The URL of a broker with its port, and over WebSocket its path, so that two spellings of one address are equal. */
export function withMqttPort(url: string): string {
  return brokerNodes(url).map(nodeWithPort).join(',')
}

function nodeWithPort(url: string): string {
  const { protocol, username, password, hostname, pathname, search } = new URL(url)
  const login = username === '' ? '' : `${username}${password === '' ? '' : `:${password}`}@`
  const path = pathname === '/' || pathname === '' ? (isWebSocketUrl(url) ? mqttPath : '') : pathname
  return `${protocol}//${login}${hostname}:${brokerPort(url)}${path}${search}`
}

/** The port of one node's URL. */
export const brokerPort = (url: string): number => Number(new URL(url).port || defaultPorts[new URL(url).protocol])

/** The nodes as MQTT.js takes them: after a failure it goes on to the next one. */
export const brokerServers = (url: string) =>
  brokerNodes(url).map((node) => ({
    host: new URL(node).hostname.replace(/^\[(.*)\]$/, '$1'),
    port: brokerPort(node),
    protocol: new URL(node).protocol === 'mqtts:' ? ('mqtts' as const) : ('mqtt' as const),
  }))

/** As errors and logs show it. */
export const shownBroker = (url: string): string => brokerNodes(url).map(shownUrl).join(', ')

/** The URL of MQTT over WebSocket at a bridge whose HTTP has this URL. */
export const webSocketBroker = (httpUrl: string, path = mqttPath): string =>
  withMqttPort(new URL(path, httpUrl).href.replace(/^http/, 'ws'))
