import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type RequestEnd, UpstreamBalancer } from '../../../../core/policy/upstream/balancer.ts'

const startedMs = 1_000

/** Drives a balancer by hand. */
class Driven {
  readonly balancer: UpstreamBalancer
  readonly servers: readonly number[]
  nowMs = startedMs
  requests = 0

  constructor(weights: readonly number[], maxRequests = 4, models = ['a', 'b']) {
    const servers = weights.map((weight) => ({ weight, models }))
    this.balancer = new UpstreamBalancer(servers, maxRequests, startedMs)
    this.servers = weights.map((_, server) => server)
  }

  /** A new request. @returns its server */
  ask(servers = this.servers, model = 'a'): number | undefined {
    this.requests += 1
    return this.balancer.send(this.requests, { model, servers }, this.nowMs)
  }

  isUp(servers = this.servers, model = 'a'): boolean {
    return this.balancer.isUp({ model, servers }, this.nowMs)
  }

  arrived(request = this.requests): boolean {
    return this.balancer.arrived(request, this.nowMs)
  }

  /** @returns the servers that are to be probed then */
  end(how: RequestEnd, request = this.requests, retryAfterMs = 0): number[] {
    this.balancer.ended(request, how, this.nowMs, retryAfterMs)
    return this.balancer.probe(this.nowMs)
  }

  probed(server: number, isAlive: boolean): number[] {
    return this.balancer.probed(server, isAlive, this.nowMs)
  }

  /** Time passes. @returns the servers that are to be probed meanwhile */
  pass(ms: number): number[] {
    const endMs = this.nowMs + ms
    const probes: number[] = []
    for (let wakeMs = this.wakeMs; wakeMs <= endMs; wakeMs = this.wakeMs) {
      this.nowMs = Math.max(this.nowMs, wakeMs)
      probes.push(...this.balancer.probe(this.nowMs))
      // Time alone must not keep a caller busy.
      expect(this.wakeMs).toBeGreaterThan(this.nowMs)
    }
    this.nowMs = endMs
    return probes
  }

  get wakeMs(): number {
    return this.balancer.wakeMs(this.nowMs)
  }

  get loads() {
    return this.balancer.loads(this.nowMs)
  }

  /** Three answers fail. The server answers the probe that the first one causes. */
  break(server: number, model = 'a'): void {
    for (let nth = 0; nth < 3; nth++) {
      expect(this.ask([server], model)).toBe(server)
      this.end('failed')
    }
    this.probed(server, true)
  }

  /** A request fails, and the probe that follows. */
  kill(server: number): void {
    this.ask([server])
    expect(this.end('failed')).toContain(server)
    this.probed(server, false)
  }
}

const times = <Item>(count: number, make: (nth: number) => Item) => Array.from({ length: count }, (_, nth) => make(nth))

describe('the choice of a server', () => {
  it('is the one with the fewest requests under way, relative to its weight', () => {
    const driven = new Driven([1, 3])
    const chosen = times(8, () => driven.ask())
    expect(chosen.slice(0, 4).filter((server) => server === 1)).toHaveLength(3)
    expect(chosen.filter((server) => server === 0)).toHaveLength(4)
    expect([driven.ask(), driven.isUp()]).toEqual([undefined, true])
  })

  it('is one of those that have the model', () => {
    const driven = new Driven([1, 1, 1])
    expect(times(5, () => driven.ask([1]))).toEqual([1, 1, 1, 1, undefined])
    expect([0, 2]).toContain(driven.ask([0, 2]))
  })

  it('gives shares that follow the weights where latencies are equal, at any load', () => {
    const check = (weights: number[], clients: number) => {
      const driven = new Driven(weights, 1_000)
      const total = weights.reduce((sum, weight) => sum + weight)
      const count = weights.map(() => 0)
      times(clients, () => driven.ask())
      for (let ended = 1; ended <= 30 * total; ended++) {
        driven.end('completed', ended)
        count[driven.ask()!]! += 1
      }
      for (const [server, weight] of weights.entries())
        expect(Math.abs(count[server]! - 30 * weight)).toBeLessThanOrEqual(2 + 3 * weight)
    }
    const weights = fc.array(fc.integer({ min: 1, max: 8 }), { minLength: 1, maxLength: 5 })
    fc.assert(fc.property(weights, fc.integer({ min: 1, max: 40 }), check), {
      examples: [
        [[3, 1], 1],
        [[3, 1], 2],
        [[1, 1], 1],
        [[8, 1, 1], 3],
      ],
      numRuns: 60,
    })
  })

  it('gives a server that is slower fewer requests, and none of them starves', () => {
    const driven = new Driven([1, 1], 100)
    let running: { request: number; server: number; endMs: number }[] = []
    const count = [0, 0]
    for (let nth = 0; nth < 400; nth++) {
      if (running.length === 8) {
        const next = running.reduce((first, each) => (each.endMs < first.endMs ? each : first))
        running = running.filter((each) => each !== next)
        driven.nowMs = next.endMs
        driven.end('completed', next.request)
      }
      const server = driven.ask()!
      count[server]! += 1
      running.push({ request: driven.requests, server, endMs: driven.nowMs + (server === 0 ? 100 : 900) })
    }
    // Both have four under way, for 100 and for 900 ms.
    expect(count[0]! / count[1]!).toBeGreaterThan(6)
    expect(count[1]).toBeGreaterThan(20)
  })

  it('does not give a server that was down what it has missed', () => {
    const driven = new Driven([1, 1])
    driven.break(1)
    times(20, () => {
      expect(driven.ask([0])).toBe(0)
      driven.end('completed')
    })
    driven.pass(1_000)
    const chosen = times(20, () => {
      const server = driven.ask()
      driven.arrived()
      driven.end('completed')
      return server
    })
    expect(chosen.filter((server) => server === 1)).toHaveLength(10)
  })
})

describe('a circuit', () => {
  it('opens after three failures in a row, for a second', () => {
    const driven = new Driven([1])
    driven.break(0)
    expect([driven.ask(), driven.isUp()]).toEqual([undefined, false])
    driven.pass(999)
    expect(driven.loads).toMatchObject([{ state: 'half-open', failingModels: ['a'], requests: 3, failures: 3, outstanding: 0 }])
    driven.pass(1)
    expect(driven.loads).toMatchObject([{ state: 'half-open', failingModels: [] }])
    expect([driven.ask(), driven.ask(), driven.isUp()]).toEqual([0, undefined, true])
  })

  it('is one for each model: the failures of one are not those of another', () => {
    const driven = new Driven([1, 1])
    driven.break(0, 'b')
    expect(times(4, () => driven.ask([0]))).toEqual([0, 0, 0, 0])
    expect(times(4, () => driven.ask([0, 1], 'b'))).toEqual([1, 1, 1, 1])
    expect(driven.loads).toMatchObject([{ state: 'half-open', failingModels: ['b'] }, { state: 'closed' }])
  })

  it('opens for all models where a probe fails, until one succeeds', () => {
    const driven = new Driven([1])
    driven.kill(0)
    expect([driven.isUp(undefined, 'a'), driven.isUp(undefined, 'b')]).toEqual([false, false])
    expect(driven.loads).toMatchObject([{ state: 'open', failingModels: ['a', 'b'] }])
    expect(driven.pass(1_000)).toEqual([0])
    expect(driven.isUp()).toBe(false)
    driven.probed(0, true)
    expect(driven.loads).toMatchObject([{ state: 'half-open', failingModels: [] }])
    driven.pass(10_000)
    expect(driven.isUp()).toBe(true)
  })

  it('stays closed where whole answers come between failures', () => {
    const driven = new Driven([1])
    for (let nth = 0; nth < 12; nth++) {
      driven.ask()
      driven.arrived()
      driven.end(nth % 3 === 2 ? 'completed' : 'failed')
    }
    expect(driven.loads).toMatchObject([{ state: 'closed', failures: 8 }])
  })

  it('opens where a server begins answers and never ends them', () => {
    const driven = new Driven([1])
    for (let nth = 0; nth < 3; nth++) {
      driven.ask()
      expect([driven.arrived(), driven.arrived()]).toEqual([true, false])
      driven.end('failed')
    }
    expect(driven.loads).toMatchObject([{ failingModels: ['a'] }])
  })

  it('half-opens for one request, however many wait, until its first token', () => {
    const driven = new Driven([1], 100)
    driven.kill(0)
    expect(driven.pass(2_000)).toEqual([0])
    driven.probed(0, true)
    expect(times(50, () => driven.ask()).filter((server) => server === 0)).toHaveLength(1)
    const trial = driven.requests - 49
    // One that is slow keeps the next one back for a while only.
    driven.pass(5_000)
    expect(times(50, () => driven.ask()).filter((server) => server === 0)).toHaveLength(1)
    driven.arrived(trial)
    expect(times(50, () => driven.ask()).filter((server) => server === 0)).toHaveLength(50)
  })

  it('opens again for twice as long where the request on trial fails, up to half a minute', () => {
    const driven = new Driven([1])
    driven.break(0)
    driven.pass(1_000)
    for (const downMs of [2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
      expect(driven.ask()).toBe(0)
      driven.end('failed')
      driven.pass(downMs - 1)
      expect(driven.isUp()).toBe(false)
      driven.pass(1)
      expect(driven.isUp()).toBe(true)
    }
  })

  it('opens for as long as a server asks, for all models and without probes', () => {
    const driven = new Driven([1, 1])
    times(3, () => driven.ask([0]))
    driven.end('busy', 1, 7_000)
    // Of requests that were under way.
    driven.end('busy', 2, 1_000)
    driven.arrived(3)
    expect([driven.ask(), driven.isUp([0]), driven.isUp([0], 'b')]).toEqual([1, false, false])
    expect(driven.loads).toMatchObject([{ state: 'open', failingModels: [], failures: 2 }, {}])
    expect(driven.pass(6_999).filter((server) => server === 0)).toEqual([])
    expect(driven.isUp([0])).toBe(false)
    driven.pass(1)
    expect([driven.ask([0]), driven.ask([0])]).toEqual([0, undefined])
  })

  it('does not open for longer than ten minutes', () => {
    const driven = new Driven([1])
    driven.ask()
    driven.end('busy', 1, 86_400_000)
    driven.pass(600_000)
    expect(driven.ask()).toBe(0)
  })
})

describe('probes', () => {
  it('follow a failure at once, and idle servers now and then', () => {
    const driven = new Driven([1, 1])
    expect(driven.ask()).toBe(0)
    expect(driven.end('failed')).toEqual([0])
    driven.probed(0, true)
    expect(driven.pass(29_000)).toEqual([])
    expect(driven.pass(1_000)).toEqual([0, 1])
  })

  it('find a silent server: requests without a token move where another server is up', () => {
    const driven = new Driven([1, 1], 100)
    expect([driven.ask([0, 1]), driven.ask([0]), driven.ask([0, 1]), driven.ask([0])]).toEqual([0, 0, 1, 0])
    driven.arrived(4)
    expect(driven.pass(5_000)).toEqual([0, 1])
    driven.probed(1, true)
    expect(driven.probed(0, false)).toEqual([1])
    expect(driven.loads).toMatchObject([{ state: 'open' }, { state: 'closed' }])
    // The first token of the one that stayed shows that the server is alive.
    driven.arrived(2)
    expect(driven.isUp([0])).toBe(true)
  })

  it('do not count where answers come meanwhile', () => {
    const driven = new Driven([1, 1])
    driven.ask()
    expect(driven.pass(5_000)).toEqual([0])
    driven.nowMs += 1
    driven.arrived()
    expect(driven.probed(0, false)).toEqual([])
    expect(driven.isUp([0])).toBe(true)
  })

  it('do not end a wait that a server has asked for', () => {
    const driven = new Driven([1])
    driven.ask()
    driven.ask()
    expect(driven.end('failed', 1)).toEqual([0])
    driven.end('busy', 2, 9_000)
    driven.probed(0, true)
    expect(driven.isUp()).toBe(false)
  })

  it('leave the requests of a server without an alternative in peace', () => {
    const driven = new Driven([1])
    driven.ask()
    expect(driven.pass(600_000)).toEqual([])
  })
})

type Step =
  | { readonly do: 'ask'; readonly servers: number[] }
  | { readonly do: RequestEnd | 'arrived' | 'alive' | 'dead'; readonly which: number }
  | { readonly do: 'pass'; readonly ms: number }

const events = ['arrived', 'completed', 'failed', 'failed', 'busy', 'left', 'alive', 'dead'] as const

const stepFor = (servers: number): fc.Arbitrary<Step> => {
  const some = fc.subarray(
    times(servers, (nth) => nth),
    { minLength: 1 },
  )
  return fc.oneof(
    { weight: 5, arbitrary: fc.record({ do: fc.constant('ask' as const), servers: some }) },
    { weight: 8, arbitrary: fc.record({ do: fc.constantFrom(...events), which: fc.nat(20) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 0, max: 40_000 }) }) },
  )
}

const runs = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 4 }).chain((weights) =>
  fc.record({
    weights: fc.constant(weights),
    maxRequests: fc.integer({ min: 1, max: 3 }),
    steps: fc.array(stepFor(weights.length), { maxLength: 120 }),
  }),
)

/** What happens to servers with one model, and what is true of each choice. */
class Watched {
  readonly driven: Driven
  readonly #weights: readonly number[]
  readonly #maxRequests: number
  /** The server of each request under way. */
  readonly running = new Map<number, number>()
  readonly probing = new Set<number>()
  /** When a half-open server got its last request. */
  readonly #trials = new Map<number, number>()

  constructor(weights: readonly number[], maxRequests: number) {
    this.driven = new Driven(weights, maxRequests, ['a'])
    this.#weights = weights
    this.#maxRequests = maxRequests
  }

  run(step: Step): void {
    const { driven } = this
    if (step.do === 'ask') this.ask(step.servers)
    else if (step.do === 'pass') this.#probe(driven.pass(step.ms))
    else if (step.do === 'alive' || step.do === 'dead') {
      const server = [...this.probing].at(step.which % Math.max(1, this.probing.size))
      if (server === undefined) return
      this.probing.delete(server)
      for (const moved of driven.probed(server, step.do === 'alive')) expect(this.running.get(moved)).toBe(server)
    } else {
      const request = [...this.running.keys()].at(step.which % Math.max(1, this.running.size))
      if (request === undefined) return
      if (step.do === 'arrived') driven.arrived(request)
      else {
        this.running.delete(request)
        this.#probe(driven.end(step.do, request, 1_000 * step.which))
      }
    }
    for (const [server, { state }] of driven.loads.entries()) if (state !== 'half-open') this.#trials.delete(server)
  }

  ask(servers: readonly number[]): number | undefined {
    const { driven } = this
    const stateOf = driven.loads.map(({ state }) => state)
    const underWay = (at: number) => [...this.running.values()].filter((server) => server === at).length
    const load = (at: number, more: number) => (underWay(at) + more) / this.#weights[at]!
    const healthy = servers.filter((at) => stateOf[at] === 'closed' && underWay(at) < this.#maxRequests)
    const server = driven.ask([...servers])
    expect(driven.isUp([...servers])).toBe(servers.some((at) => stateOf[at] !== 'open'))
    if (server === undefined) {
      expect(healthy).toEqual([])
      return undefined
    }
    expect(servers).toContain(server)
    expect(underWay(server)).toBeLessThan(this.#maxRequests)
    for (const other of healthy) expect(load(server, 0)).toBeLessThan(load(other, 1))
    expect(stateOf[server]).not.toBe('open')
    if (stateOf[server] === 'half-open') {
      expect(driven.nowMs - (this.#trials.get(server) ?? Number.NEGATIVE_INFINITY)).toBeGreaterThanOrEqual(5_000)
      this.#trials.set(server, driven.nowMs)
    }
    this.running.set(driven.requests, server)
    return server
  }

  #probe(servers: readonly number[]): void {
    for (const server of servers) {
      expect(this.probing.has(server)).toBe(false)
      this.probing.add(server)
    }
  }
}

describe('whatever happens,', () => {
  it('no server gets a request while its circuit is open, two on trial, too many, or more than its share', () => {
    fc.assert(
      fc.property(runs, ({ weights, maxRequests, steps }) => {
        const watched = new Watched(weights, maxRequests)
        for (const step of steps) watched.run(step)
        const outstanding = watched.driven.loads.reduce((sum, load) => sum + load.outstanding, 0)
        expect(outstanding).toBe(watched.running.size)
      }),
      { numRuns: 500 },
    )
  })

  it('every server gets requests again, once it answers', () => {
    fc.assert(
      fc.property(runs, ({ weights, maxRequests, steps }) => {
        const watched = new Watched(weights, maxRequests)
        for (const step of steps) watched.run(step)
        const found = new Set<number | undefined>()
        for (let nth = 0; nth < 45; nth++) {
          while (watched.probing.size > 0) watched.run({ do: 'alive', which: 0 })
          while (watched.running.size > 0) {
            watched.run({ do: 'arrived', which: 0 })
            watched.run({ do: 'completed', which: 0 })
          }
          for (const server of watched.driven.servers) found.add(watched.ask([server]))
          watched.run({ do: 'pass', ms: 1_000 })
        }
        for (const server of watched.driven.servers) expect(found).toContain(server)
      }),
      { numRuns: 100 },
    )
  })
})
