/** Ports of MQTT, and of MQTT over TLS (IANA). */
export const mqttPorts = { plain: 1883, tls: 8883 } as const

/** The URL of a broker with its port, so that two spellings of one address are equal. */
export function withMqttPort(url: string): string {
  const { protocol, username, password, hostname, port, pathname, search } = new URL(url)
  const login = username === '' ? '' : `${username}${password === '' ? '' : `:${password}`}@`
  const path = pathname === '/' ? '' : pathname
  return `${protocol}//${login}${hostname}:${port || (protocol === 'mqtts:' ? mqttPorts.tls : mqttPorts.plain)}${path}${search}`
}
