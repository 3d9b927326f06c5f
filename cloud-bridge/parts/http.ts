import { dataPath } from '../../core/protocol/messages.ts'
import { startHttpServer } from '../http/server.ts'
import type { Base } from './base.ts'
import { type RouteParts, routesOf } from './routes.ts'

/** The HTTP listener, with the data plane on its path. @throws BrimError LISTEN_* */
export async function openHttp(base: Base, parts: RouteParts) {
  const { config, clock, closers, log, listeners } = base
  const http = await startHttpServer({
    host: config.host,
    port: config.httpPort,
    routes: routesOf(base, parts),
    upgrades: { [dataPath]: parts.plane.upgrade },
    certificate: parts.certificate,
    authorizer: parts.authorizer,
    limits: listeners.http,
    eventStreamsPerClient: config.limits.eventStreamsPerClient,
    jsonValues: config.limits.httpJsonValues,
    clock,
    logger: log('http'),
  })
  closers.push(http.close)
  return http
}
