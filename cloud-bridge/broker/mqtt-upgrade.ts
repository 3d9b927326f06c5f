import type { Duplex } from 'node:stream'
import { WebSocketServer } from 'ws'
import { WebSocketStream } from '../../core/kit/base/websocket-stream.ts'
import { mqttSubprotocol } from '../../core/wire/protocol/mqtt-url.ts'
import { refuseUpgrade } from '../http/refuse-upgrade.ts'
import type { Upgrade } from '../http/server.ts'

export interface MqttUpgradeOptions {
  readonly maxMessageBytes: number
  /** Serves MQTT on this connection. */
  readonly serve: (transport: Duplex, address: string, onConnect: () => void) => void
}

/** MQTT over WebSocket (MQTT 3.1.1 §6). As by TCP, a client proves its identity in its CONNECT packet. */
export function createMqttUpgrade({ maxMessageBytes, serve }: MqttUpgradeOptions): Upgrade {
  const server = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: maxMessageBytes,
    handleProtocols: () => mqttSubprotocol,
  })
  return (request, socket, head, { address, onAccepted }) => {
    const offered = (request.headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim())
    if (!offered.includes(mqttSubprotocol)) {
      refuseUpgrade(socket, '400 Bad Request')
      return
    }
    server.handleUpgrade(request, socket, head, (webSocket) => serve(new WebSocketStream(webSocket), address, onAccepted))
  }
}
