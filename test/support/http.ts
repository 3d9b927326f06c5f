import type { Routes } from '../../cloud-bridge/http/router.ts'
import { type HttpOptions, startHttpServer } from '../../cloud-bridge/http/server.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { postJson } from './post-json.ts'
import { silentLogger } from './silent-logger.ts'

export interface TestHttp extends AsyncDisposable {
  readonly port: number
  readonly url: string
  get(path: string, headers?: Record<string, string>): Promise<Response>
  /** Sends JSON. */
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Response>
  close(): Promise<void>
}

/** The bridge's HTTP server with these routes, on a free loopback port. */
export async function startTestHttp(routes: readonly Routes[], options: Partial<HttpOptions> = {}): Promise<TestHttp> {
  const defaults = { host: '127.0.0.1', port: 0, clock: systemClock, logger: silentLogger() }
  const { port, close } = await startHttpServer({ ...defaults, ...options, routes })
  const url = `http://127.0.0.1:${port}`
  return {
    port,
    url,
    get: (path, headers = {}) => fetch(url + path, { headers }),
    post: (path, body, headers = {}) => postJson(url + path, body, headers),
    close,
    [Symbol.asyncDispose]: close,
  }
}
