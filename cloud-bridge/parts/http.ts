import { dataPath } from '../../core/protocol/messages.ts'
import { mqttPath } from '../../core/protocol/mqtt-url.ts'
import { startHttpServer } from '../http/server.ts'
import type { Base } from './base.ts'
import { type RouteParts, routesOf } from './routes.ts'

/** The HTTP listener, with the data plane and MQTT over WebSocket on their paths. @throws BrimError LISTEN_* */
export async function openHttp(base: Base, parts: RouteParts) {
  const { config, clock, closers, log, listeners, proxies } = base
  const { upgrade } = parts.broker
  const http = await startHttpServer({
    host: config.host,
    port: config.httpPort,
    routes: routesOf(base, parts),
    upgrades: { [dataPath]: parts.plane.upgrade, ...(upgrade ? { [mqttPath]: upgrade } : {}) },
    certificate: parts.certificate,
    proxies,
    names: config.dataUrl === undefined ? [] : [new URL(config.dataUrl).hostname],
    authorizer: parts.authorizer,
    limits: listeners.http,
    eventStreams: { total: config.limits.eventStreams, perClient: config.limits.eventStreamsPerClient },
    jsonValues: config.limits.httpJsonValues,
    clock,
    logger: log('http'),
  })
  closers.push(http.close)
  return http
}
