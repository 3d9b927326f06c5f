import type { Routes } from '../http/router.ts'
import { type HttpServer, startHttpServer, type Upgrade } from '../http/server.ts'
import type { Authorizer } from '../identity/authorizer.ts'
import type { Access } from './access.ts'
import type { Base } from './base.ts'
import type { Network } from './network.ts'

/** Host names by which clients reach the bridge through a proxy. */
export const namesOf = ({ dataUrl }: Base['config']): readonly string[] =>
  dataUrl === undefined ? [] : [new URL(dataUrl).hostname]

/**
 * The HTTP listener.
 * @param upgrades by path, the WebSockets that begin there
 * @throws BrimError LISTEN_*
 */
export async function openHttp(
  { config, clock, closers, logger }: Base,
  { listeners, proxies, node }: Network,
  { certificate }: Access,
  authorizer: Authorizer,
  routes: readonly Routes[],
  upgrades: Readonly<Record<string, Upgrade>>,
): Promise<HttpServer> {
  const http = await startHttpServer({
    host: config.host,
    port: config.httpPort,
    routes,
    upgrades,
    certificate,
    proxies,
    names: namesOf(config),
    origins: config.allowedOrigins ?? [],
    authorizer,
    stored: node?.stored,
    after: node?.after,
    limits: listeners.http,
    eventStreams: { total: config.limits.eventStreams, perClient: Math.ceil(config.limits.eventStreams / 4) },
    clock,
    logger: logger.child({ component: 'http' }),
  })
  closers.push(http.close)
  return http
}
