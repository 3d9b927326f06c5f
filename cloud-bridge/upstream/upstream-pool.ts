import { EventEmitter, once } from 'node:events'
import type { AnswerDelta, AnswerRequest, Endpoint } from '../../core/answer/endpoint/endpoint.ts'
import type { UpstreamLimits } from '../../core/answer/upstream/endpoint.ts'
import { UpstreamFailures } from '../../core/answer/upstream/failure.ts'
import { Watchdog } from '../../core/answer/upstream/watchdog.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError, type ErrorCode } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import type { Random } from '../../core/kit/base/random.ts'
import { shownUrl } from '../../core/kit/base/shown-url.ts'
import { type RequestEnd, type ServerLoad, UpstreamBalancer, type WantedServer } from '../../core/policy/upstream/balancer.ts'
import { retryWaitMs } from '../../core/policy/upstream/retry.ts'
import { type ProbedServer, probeUpstream } from './probe-upstream.ts'

/** What a client is asked to wait where too many wait. */
const queueRetryMs = 1_000

/** How requests end by these errors. By others nothing is known of the server: the request asks too much. */
const endings: Readonly<Partial<Record<ErrorCode, RequestEnd>>> = {
  QUEUE_FULL: 'busy',
  UPSTREAM_FAILED: 'failed',
  CONFIG_INVALID: 'failed',
}

export interface PooledServer extends ProbedServer {
  readonly weight: number
  /** Whether it goes on after the beginning of an answer. */
  readonly continues: boolean
  /** By name of the model: asks the server once. */
  readonly endpoints: ReadonlyMap<string, Endpoint>
}

export interface UpstreamPoolOptions {
  readonly servers: readonly PooledServer[]
  readonly limits: UpstreamLimits
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}

/** What operators see of a server. */
export interface UpstreamView extends Pick<ServerLoad, 'outstanding' | 'requests' | 'failures' | 'state'> {
  /** As logs show it. */
  readonly url: string
  /** Why it gets no requests; undefined: it gets some for each of its models, or has asked for a wait. */
  readonly problem: string | undefined
}

/**
 * Models on several servers. A request that fails before its first token is sent to another server at once, and after all have failed
 * to each again, as often as the limit of retries allows. Later failures end the answer: another server would go on with other words.
 */
export class UpstreamPool {
  readonly #options: UpstreamPoolOptions
  readonly #balancer: UpstreamBalancer
  /** Requests for which the servers have no room. */
  #waiting = 0
  /** After a `change` they look again, in the order of their arrival. */
  readonly #changes = new EventEmitter().setMaxListeners(0)
  /** Requests under way. */
  readonly #moving = new Map<number, AbortController>()
  /** The last one of each server. */
  readonly #failures: (BrimError | undefined)[] = []
  readonly #closing = new AbortController()
  #timer = new AbortController()
  #timerMs = Number.POSITIVE_INFINITY
  #requests = 0

  constructor(options: UpstreamPoolOptions) {
    const { servers, limits, clock } = options
    this.#options = options
    const balanced = servers.map(({ weight, endpoints }) => ({ weight, models: [...endpoints.keys()] }))
    this.#balancer = new UpstreamBalancer(balanced, limits.requests, clock.nowMs())
    this.#schedule()
  }

  /** One for each model. */
  get endpoints(): Endpoint[] {
    const models = new Set(this.#options.servers.flatMap(({ endpoints }) => [...endpoints.keys()]))
    return [...models].map((name) => ({
      model: { name },
      continues: this.#options.servers.every(({ endpoints, continues }) => continues || !endpoints.has(name)),
      answer: (request, signal) => this.#answer(name, request, signal),
    }))
  }

  get views(): UpstreamView[] {
    const { servers, clock } = this.#options
    return this.#balancer.loads(clock.nowMs()).map(({ failingModels, ...load }, at) => {
      const url = shownUrl(servers[at]!.url)
      const detail = `${url} gets no requests for ${failingModels.join(', ')}: ${this.#failures[at]?.message}`
      return { ...load, url, problem: failingModels.length > 0 ? detail : undefined }
    })
  }

  close(): void {
    this.#closing.abort()
    this.#timer.abort()
  }

  async *#answer(model: string, request: AnswerRequest, signal: AbortSignal): AsyncGenerator<AnswerDelta, void> {
    const { servers, limits, clock, random } = this.#options
    const total = new Watchdog(clock)
    const late = () => new UpstreamFailures(model).failed(`did not finish within ${limits.totalMs / 1_000} s`)
    total.allow(limits.totalMs, late)
    const ended = AbortSignal.any([signal, total.signal])
    const able = [...servers.keys()].filter((at) => servers[at]!.endpoints.has(model))
    const continuing = request.answered ? able.filter((at) => servers[at]!.continues) : []
    const wanted = { model, servers: continuing.length > 0 ? continuing : able }
    this.#requests += 1
    const number = this.#requests
    const failed = new Set<number>()
    let rounds = 0
    try {
      for (let isRepeated = false; ; isRepeated = true) {
        const left = { model, servers: wanted.servers.filter((at) => !failed.has(at)) }
        const server = await this.#take(number, left, isRepeated, ended)
        if (server !== undefined) {
          if (yield* this.#attempt(number, servers[server]!.endpoints.get(model)!, server, request, ended)) return
          failed.add(server)
          continue
        }
        rounds += 1
        const failure = this.#failureOf(wanted)
        const waitMs = retryWaitMs(rounds, failure.retryAfterMs, limits, random.next())
        if (waitMs === undefined) throw failure
        failed.clear()
        await clock.sleep(waitMs, ended).catch(() => ended.throwIfAborted())
      }
    } finally {
      total.close()
    }
  }

  /** @returns whether the answer is complete; else it may be asked for again */
  async *#attempt(
    number: number,
    endpoint: Endpoint,
    at: number,
    request: AnswerRequest,
    signal: AbortSignal,
  ): AsyncGenerator<AnswerDelta, boolean> {
    const { servers, clock, logger } = this.#options
    const moving = new AbortController()
    this.#moving.set(number, moving)
    let end: RequestEnd = 'left'
    let retryAfterMs: number | undefined
    let hasBegun = false
    try {
      for await (const delta of endpoint.answer(request, AbortSignal.any([signal, moving.signal]))) {
        hasBegun = true
        if (this.#balancer.arrived(number, clock.nowMs())) this.#changed()
        if (delta.end) end = 'completed'
        yield delta
      }
      return true
    } catch (error) {
      if (signal.aborted || !(error instanceof BrimError)) throw error
      end = endings[error.code] ?? 'left'
      retryAfterMs = error.retryAfterMs
      if (end !== 'left') this.#failures[at] = error
      if (hasBegun || end === 'left') throw error
      logger.info({ err: error, url: shownUrl(servers[at]!.url) }, 'an upstream failed before the first token')
      return false
    } finally {
      this.#moving.delete(number)
      this.#balancer.ended(number, end, clock.nowMs(), retryAfterMs)
      this.#changed()
    }
  }

  /**
   * Waits until a server has room for the request.
   * @param isRepeated whether it had a server before, and so a place among those that wait
   * @returns undefined: none of the servers is up
   * @throws BrimError QUEUE_FULL; the signal's reason
   */
  async #take(request: number, wanted: WantedServer, isRepeated: boolean, signal: AbortSignal): Promise<number | undefined> {
    const { clock, limits } = this.#options
    signal.throwIfAborted()
    const look = () => this.#balancer.send(request, wanted, clock.nowMs())
    let server = look()
    if (server !== undefined || !this.#balancer.isUp(wanted, clock.nowMs())) return server
    if (!isRepeated && this.#waiting >= limits.queue)
      throw new BrimError('QUEUE_FULL', `${limits.requests} requests per upstream are being answered and ${limits.queue} wait`, {
        hint: 'ask again later',
        retryAfterMs: queueRetryMs,
      })
    this.#waiting += 1
    try {
      while (server === undefined && this.#balancer.isUp(wanted, clock.nowMs())) {
        await once(this.#changes, 'change', { signal }).catch(() => signal.throwIfAborted())
        server = look()
      }
      return server
    } finally {
      this.#waiting -= 1
    }
  }

  /** Why none of the servers answers: each has failed. */
  #failureOf({ model, servers }: WantedServer): BrimError {
    const failures = servers.map((at) => this.#failures[at]!)
    const [first, ...others] = failures as [BrimError, ...BrimError[]]
    if (others.length === 0) return first
    const code = others.every((other) => other.code === first.code) ? first.code : 'UPSTREAM_FAILED'
    const waits = failures.flatMap(({ retryAfterMs }) => retryAfterMs ?? [])
    return new BrimError(code, `no upstream of ${model} answers: ${failures.map(({ message }) => message).join('; ')}`, {
      cause: first.cause,
      hint: 'ask again later; "brim fleet doctor" at the bridge shows their addresses',
      retryAfterMs: waits.length > 0 ? Math.min(...waits) : undefined,
    })
  }

  async #probe(at: number): Promise<void> {
    const { servers, clock, logger } = this.#options
    const failure = await probeUpstream(servers[at]!, clock, this.#closing.signal)
    if (this.#closing.signal.aborted) return
    if (failure) {
      this.#failures[at] = failure
      logger.warn({ url: shownUrl(servers[at]!.url), err: failure }, 'an upstream does not answer a probe')
    }
    const silent = this.#balancer.probed(at, failure === undefined, clock.nowMs())
    for (const request of silent) this.#moving.get(request)?.abort(failure)
    this.#changed()
  }

  /** A request that waits may find a server now, or has lost the last one. */
  #changed(): void {
    this.#changes.emit('change')
    for (const at of this.#balancer.probe(this.#options.clock.nowMs())) void this.#probe(at)
    this.#schedule()
  }

  #schedule(): void {
    const { clock } = this.#options
    const wakeMs = this.#balancer.wakeMs(clock.nowMs())
    // An earlier timer finds nothing due, and is replaced then.
    if (wakeMs >= this.#timerMs || this.#closing.signal.aborted) return
    this.#timer.abort()
    this.#timer = new AbortController()
    this.#timerMs = wakeMs
    const onWake = () => {
      this.#timerMs = Number.POSITIVE_INFINITY
      this.#changed()
    }
    clock.sleep(Math.max(0, wakeMs - clock.nowMs()), this.#timer.signal).then(onWake, () => {})
  }
}
