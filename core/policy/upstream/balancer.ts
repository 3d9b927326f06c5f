import { Circuit, type CircuitState } from './circuit.ts'

/** A server from which nothing comes for that long is probed: with requests that another server could answer, and without any. */
const quietMs = { busy: 5_000, idle: 30_000 }
/** Between the probes that failed requests cause. */
const probeGapMs = 1_000
const never = Number.POSITIVE_INFINITY

/** A server, as it is configured. Servers are named by their places in a list. */
export interface BalancedServer {
  /** Its part of the requests, relative to the others, > 0. */
  readonly weight: number
  readonly models: readonly string[]
}

/** What a request needs: a model, and those of its servers that may answer. */
export interface WantedServer {
  readonly model: string
  readonly servers: readonly number[]
}

/**
 * `completed`: the answer is whole; `left`: the client has gone, or asks for what no server does; `busy`: the server asks for a wait;
 * `failed`: anything else.
 */
export type RequestEnd = 'completed' | 'left' | 'busy' | 'failed'

/** What operators see of a server. */
export interface ServerLoad {
  /** Requests under way. */
  readonly outstanding: number
  /** That it was ever sent. */
  readonly requests: number
  /** Of these, the failed and refused ones. */
  readonly failures: number
  /** `open`: it gets no requests; `half-open`: not for all of its models, or on trial. */
  readonly state: CircuitState
  /** For which it gets none, though it has not asked for a wait. */
  readonly failingModels: readonly string[]
}

interface Server {
  readonly at: number
  readonly weight: number
  readonly circuits: ReadonlyMap<string, Circuit>
  /** Whether another server has one of its models. */
  readonly hasAlternative: boolean
  outstanding: number
  requests: number
  failures: number
  /** Requests it was given, over its weight: decides among servers with equal loads (start-time fair queueing). */
  turn: number
  /** When something came from it last, or it began to be waited for. */
  heardMs: number
  /** Start of its last probe. */
  probedMs: number
  isProbing: boolean
  /** Whether a request has failed since the last probe. */
  isSuspect: boolean
}

/**
 * Which of several servers answers a request: of those that have its model and are up, the one with the fewest requests under way
 * relative to its weight. The length of an answer is not known before, so requests are counted, not tokens. Servers are judged by
 * their requests, model by model, and by probes where requests tell nothing: after a failure, in silence, and before a server that was
 * gone gets requests again. Mutable; times in ms.
 */
export class UpstreamBalancer {
  readonly #servers: readonly Server[]
  readonly #maxRequests: number
  readonly #running = new Map<number, WantedServer & { readonly server: Server; hasBegun: boolean }>()
  /** Of the last request. */
  #turn = 0

  /** @param maxRequests that each server gets at once */
  constructor(servers: readonly BalancedServer[], maxRequests: number, nowMs: number) {
    this.#maxRequests = maxRequests
    this.#servers = servers.map((server, at) => ({
      at,
      weight: server.weight,
      circuits: new Map(server.models.map((model) => [model, new Circuit()])),
      hasAlternative: servers.some((other) => other !== server && other.models.some((model) => server.models.includes(model))),
      ...{ outstanding: 0, requests: 0, failures: 0, turn: 0, isProbing: false, isSuspect: false },
      heardMs: nowMs,
      probedMs: Number.NEGATIVE_INFINITY,
    }))
  }

  /**
   * The load of a server is its outstanding requests over its weight. Of those that are not more loaded than another one would be
   * with the request, the one is chosen that has had least of its share: with equal latencies, shares follow the weights at any load.
   * @returns the server that the request is sent to; undefined: none has room for it
   */
  send(request: number, wanted: WantedServer, nowMs: number): number | undefined {
    const circuitOf = ({ circuits }: Server) => circuits.get(wanted.model)!
    const takers = wanted.servers
      .map((at) => this.#servers[at]!)
      .filter((server) => server.outstanding < this.#maxRequests && circuitOf(server).nextMs <= nowMs)
    const bound = Math.min(...takers.map(({ outstanding, weight }) => (outstanding + 1) / weight))
    const light = takers.filter(({ outstanding, weight }) => outstanding / weight < bound)
    // A server that was idle or down does not make up for what it has missed.
    const turnOf = ({ turn }: Server) => Math.max(turn, this.#turn)
    const [server] = light.sort((a, b) => turnOf(a) - turnOf(b))
    if (!server) return undefined
    if (server.outstanding === 0) server.heardMs = nowMs
    server.outstanding += 1
    server.requests += 1
    this.#turn = turnOf(server)
    server.turn = this.#turn + 1 / server.weight
    circuitOf(server).sent(nowMs)
    this.#running.set(request, { ...wanted, server, hasBegun: false })
    return server.at
  }

  /** Whether one of the servers takes requests, as soon as it has room. */
  isUp({ model, servers }: WantedServer, nowMs: number): boolean {
    return servers.some((at) => this.#servers[at]!.circuits.get(model)!.state(nowMs) !== 'open')
  }

  /** A piece of an answer has come. @returns whether it is the first */
  arrived(request: number, nowMs: number): boolean {
    const running = this.#running.get(request)
    if (!running) return false
    running.server.heardMs = nowMs
    if (running.hasBegun) return false
    running.hasBegun = true
    running.server.circuits.get(running.model)!.began(nowMs)
    return true
  }

  /** @param retryAfterMs that a busy server asks for */
  ended(request: number, end: RequestEnd, nowMs: number, retryAfterMs = 0): void {
    const running = this.#running.get(request)
    if (!running) return
    const { server, model } = running
    const circuit = server.circuits.get(model)!
    this.#running.delete(request)
    server.outstanding -= 1
    if (end === 'completed') circuit.completed()
    if (end === 'failed') circuit.failed(nowMs)
    if (end === 'failed') server.isSuspect = true
    if (end === 'busy') for (const each of server.circuits.values()) each.rest(retryAfterMs, nowMs)
    if (end === 'failed' || end === 'busy') server.failures += 1
  }

  /** The servers that are to be probed now. */
  probe(nowMs: number): number[] {
    const due = this.#servers.filter((server) => probeDueMs(server, nowMs) <= nowMs)
    for (const server of due) {
      server.isProbing = true
      server.isSuspect = false
      server.probedMs = nowMs
    }
    return due.map(({ at }) => at)
  }

  /**
   * The result of a probe.
   * @returns the requests of a silent server that have no token yet, and that another one could answer: they are to be moved
   */
  probed(at: number, isAlive: boolean, nowMs: number): number[] {
    const server = this.#servers[at]!
    server.isProbing = false
    if (isAlive) server.heardMs = nowMs
    // A server that refuses connections, and ends the answers that it has begun, is judged by its requests.
    const isGone = !isAlive && server.heardMs <= server.probedMs
    for (const circuit of server.circuits.values())
      if (isAlive) circuit.back(nowMs)
      else if (isGone && !circuit.isResting(nowMs)) circuit.gone(nowMs)
    if (!isGone) return []
    const waiting = [...this.#running].filter(([, running]) => running.server === server && !running.hasBegun)
    return waiting.filter(([, wanted]) => this.isUp(wanted, nowMs)).map(([request]) => request)
  }

  /** When a probe is due, or a request may be sent that could not be sent now. Infinity: never. */
  wakeMs(nowMs: number): number {
    const dues = this.#servers.flatMap((server) => {
      const nextMs = [...server.circuits.values()].map((circuit) => circuit.nextMs)
      return [probeDueMs(server, nowMs), ...nextMs.filter((ms) => ms > nowMs)]
    })
    return Math.min(never, ...dues)
  }

  loads(nowMs: number): ServerLoad[] {
    return this.#servers.map(({ outstanding, requests, failures, circuits }) => {
      const open = [...circuits].filter(([, circuit]) => circuit.state(nowMs) === 'open')
      const isClosed = [...circuits.values()].every((circuit) => circuit.state(nowMs) === 'closed')
      return {
        ...{ outstanding, requests, failures },
        state: isClosed ? 'closed' : open.length === circuits.size ? 'open' : 'half-open',
        failingModels: open.filter(([, circuit]) => !circuit.isResting(nowMs)).map(([model]) => model),
      }
    })
  }
}

function probeDueMs(server: Server, nowMs: number): number {
  const { circuits, isProbing, isSuspect, outstanding, hasAlternative, heardMs, probedMs } = server
  const all = [...circuits.values()]
  const gone = all.filter((circuit) => circuit.needsProbe)
  if (isProbing || all.every((circuit) => circuit.isResting(nowMs))) return never
  if (gone.length > 0) return Math.min(...gone.map((circuit) => circuit.untilMs))
  if (isSuspect) return probedMs + probeGapMs
  return Math.max(heardMs, probedMs) + (outstanding === 0 ? quietMs.idle : hasAlternative ? quietMs.busy : never)
}
