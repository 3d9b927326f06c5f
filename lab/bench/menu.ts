import type { Menu } from '../../core/kit/cli/command.ts'

/** `brim bench …` */
export const menu: Menu = {
  examples: [
    ['brim bench all --save', 'every page of docs/results, in hours'],
    ['brim bench engine --quick', 'the engine, in under a minute'],
    ['brim bench acceptance --quick', 'the drafters, on a few prompts'],
    ['brim bench hat --quick', 'HAT against its baselines, on shaped links'],
  ],
  commands: {
    all: ['every benchmark, one after the other; --save goes on where it was interrupted', () => import('./all/bench.ts')],
    engine: [
      'decode and prefill against context length, in place against copying, packed against separate',
      () => import('./engine/bench.ts'),
    ],
    acceptance: ['accept length of each drafter, on any prompts', () => import('./acceptance/bench.ts')],
    structured: [
      'answers kept to JSON schemas: whether they are valid, what masks cost, and what forced tokens save',
      () => import('./structured/bench.ts'),
    ],
    failover: [
      'answers whose bridge dies or hangs, or whose link is cut, stalled or corrupted',
      () => import('./failover/bench.ts'),
    ],
    hat: ['HAT and its baselines: devices and a bridge on shaped links, under load and alone', () => import('./hat/bench.ts')],
    tokenflow: [
      "TokenFlow and its baselines: readers of the bridge's own answers, in bursts and as recorded",
      () => import('./tokenflow/bench.ts'),
    ],
    'tokenflow-plan': ["time of TokenFlow's plans for up to 10,000 requests", () => import('./tokenflow-plan.ts')],
    'disco-plan': ["time of DiSCo's plans after up to 100,000 samples", () => import('./disco-plan.ts')],
    queue: [
      'the job queue: enqueue against bare SQLite, dispatch to 200 devices, cost of 100,000 finished jobs',
      () => import('./queue/bench.ts'),
    ],
    privacy: [
      'what a bridge can read of private answers: attacks on the states, by depth and by what hides them',
      () => import('./privacy/bench.ts'),
    ],
    attack: ['an honest device beside floods of requests, messages and connections', () => import('./attack/bench.ts')],
    cluster: ['jobs of bridges that share a database, while each part of it is killed', () => import('./cluster/bench.ts')],
    chaos: ['jobs while agents, bridge and broker are killed and links are cut at random', () => import('./chaos/bench.ts')],
    pice: [
      'PICE and its baselines: a bridge as the cloud, devices that expand its sketches, under growing load',
      () => import('./pice/bench.ts'),
    ],
    disco: [
      'DiSCo and its baselines: replay of recorded API latencies with three devices, by budget, with and without migration',
      () => import('./disco/bench.ts'),
    ],
    fleet: [
      'up to 10,000 devices on one bridge: connecting, at rest, at work, after a restart, beside mosquitto',
      () => import('./fleet/bench.ts'),
    ],
    page: [
      'the page in a browser: its first view of 1,000 devices, its memory, events over a restart, accessibility',
      () => import('./page/bench.ts'),
    ],
    simulator: [
      'the simulator: events per second, whole scenarios, memory of waiting requests',
      () => import('./simulator/bench.ts'),
    ],
    telemetry: [
      'CPU time of a telemetry sample, for each device in jetson/fixtures and for this machine',
      () => import('./telemetry.ts'),
    ],
  },
}
