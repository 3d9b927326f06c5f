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

/** The URL of a broker with its port, and over WebSocket its path, so that two spellings of one address are equal. */
export function withMqttPort(url: string): string {
  const { protocol, username, password, hostname, pathname, search } = new URL(url)
  const login = username === '' ? '' : `${username}${password === '' ? '' : `:${password}`}@`
  const path = pathname === '/' || pathname === '' ? (isWebSocketUrl(url) ? mqttPath : '') : pathname
  return `${protocol}//${login}${hostname}:${brokerPort(url)}${path}${search}`
}

/** The port of a broker's URL. */
export const brokerPort = (url: string): number => Number(new URL(url).port || defaultPorts[new URL(url).protocol])

/** The URL of MQTT over WebSocket at a bridge whose HTTP has this URL. */
export const webSocketBroker = (httpUrl: string, path = mqttPath): string =>
  withMqttPort(new URL(path, httpUrl).href.replace(/^http/, 'ws'))
