import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))

interface Import {
  from: string
  to: string
  typeOnly: boolean
}

const files = [
  ...['core', 'agent', 'cloud-bridge', 'lab', 'scripts'].flatMap((dir) => tsFiles(join(root, dir))),
  join(root, 'brim.ts'),
]
const imports = files.flatMap(importsOf)

/**
 * What each folder may import besides itself; the most specific row counts, and files directly in `agent/`, `cloud-bridge/`
 * and `lab/bench/` have rows of their own. `types` may be imported by `import type` only.
 */
const rules: Record<string, { values: string[]; types?: string[] }> = {
  'core/kit/base': { values: [] },
  'core/kit/store': { values: ['core/kit/base'] },
  'core/kit/trace': { values: ['core/kit/base'] },
  'core/kit/service': { values: ['core/kit/base', 'core/policy/machine.ts', 'core/policy/recording.ts'] },
  'core/wire/signing': { values: ['core/kit/base'] },
  'core/kit/listen': { values: ['core/kit/base', 'core/policy/admission'] },
  'core/kit/cli': { values: ['core/kit/base'] },
  'core/kit/config-file': { values: ['core/kit/base', 'core/kit/cli'] },
  'core/kit/support-bundle': {
    values: ['core/kit/base', 'core/kit/cli', 'core/commands', 'core/kit/config-file', 'core/kit/store'],
  },
  'core/kit/login': { values: ['core/kit/base'] },
  'core/wire/protocol': { values: ['core/kit/base', 'core/wire/openai', 'core/wire/signing'] },
  'core/model/text': { values: ['core/kit/base', 'core/policy/fairness'] },
  'core/model/grammar': { values: ['core/kit/base', 'core/model/text'] },
  'core/wire/openai': { values: ['core/kit/base'], types: ['core/model/grammar', 'core/model/text'] },
  'core/model/bundle': { values: ['core/kit/base', 'core/wire/protocol', 'core/model/text'] },
  'core/model/hub': { values: ['core/kit/base', 'core/kit/store', 'core/model/bundle'] },
  'core/model/engine': {
    values: [
      'core/kit/base',
      'core/wire/protocol',
      'core/model/text',
      'core/model/bundle',
      'core/model/grammar',
      'core/policy/estimate',
    ],
  },
  'core/model/privacy': {
    values: ['core/kit/base', 'core/model/engine', 'core/policy/estimate', 'core/wire/protocol'],
  },
  'core/model/coding': {
    values: ['core/kit/base', 'core/wire/protocol', 'core/model/text', 'core/model/bundle', 'core/model/engine'],
  },
  'core/model/draft': { values: ['core/model/engine', 'core/model/grammar', 'core/policy/hat', 'core/wire/protocol'] },
  // Endpoints implement core/answer/endpoint's interface; the API and the jobs consume it and know no endpoint.
  'core/answer/endpoint': {
    values: [
      'core/kit/base',
      'core/model/engine',
      'core/model/bundle',
      'core/model/grammar',
      'core/policy/estimate',
      'core/model/text',
    ],
    types: ['core/model/draft', 'core/policy/disco', 'core/wire/protocol'],
  },
  'core/answer/api': {
    values: [
      'core/answer/endpoint',
      'core/kit/base',
      'core/kit/trace',
      'core/kit/listen',
      'core/wire/openai',
      'core/wire/protocol',
      'core/kit/store',
    ],
    types: ['core/model/grammar', 'core/model/text'],
  },
  // Of bridge and agent alike.
  'core/answer/metrics': { values: ['core/answer/endpoint', 'core/kit/base', 'core/policy/tokenflow'] },
  'core/answer/upstream': {
    values: ['core/answer/endpoint', 'core/kit/base', 'core/model/text', 'core/wire/openai', 'core/policy/upstream'],
  },
  // Not answers, but served beside them.
  'core/answer/embeddings': {
    values: [
      'core/answer/api',
      'core/answer/endpoint',
      'core/answer/upstream',
      'core/kit/base',
      'core/model/bundle',
      'core/model/engine',
      'core/wire/openai',
    ],
  },
  'core/answer/sketch': { values: ['core/kit/base', 'core/model/bundle', 'core/wire/protocol', 'core/model/text'] },
  'core/commands': {
    values: [
      'core/kit/base',
      'core/kit/cli',
      'core/model/coding',
      'core/model/engine',
      'core/model/bundle',
      'core/model/draft',
      'core/model/hub',
      'core/model/privacy',
      'core/model/text',
      'core/wire/protocol',
    ],
    types: ['core/policy/estimate'],
  },

  // Decisions and estimators: pure.
  'core/policy/machine.ts': { values: [] },
  'core/policy/recording.ts': { values: ['core/policy/machine.ts'] },
  'core/policy/estimate': { values: [] },
  'core/policy/hat': { values: ['core/policy/estimate', 'core/policy/machine.ts', 'core/policy/serving/reader.ts'] },
  'core/policy/fairness': { values: [] },
  'core/policy/admission': {
    values: ['core/policy/fairness', 'core/policy/quota'],
    types: ['core/kit/base', 'core/wire/protocol'],
  },
  'core/policy/serving': {
    values: ['core/policy/admission', 'core/policy/estimate', 'core/policy/fairness', 'core/policy/machine.ts'],
  },
  'core/policy/tokenflow': { values: ['core/policy/admission', 'core/policy/fairness', 'core/policy/serving'] },
  'core/policy/pice': {
    values: ['core/policy/estimate', 'core/policy/fairness', 'core/policy/machine.ts', 'core/policy/serving'],
    types: ['core/wire/protocol'],
  },
  'core/policy/disco': { values: ['core/policy/estimate', 'core/policy/machine.ts'], types: ['core/kit/base'] },
  'core/policy/identity': { values: [] },
  'core/policy/trial': { values: [], types: ['core/wire/protocol'] },
  'core/policy/jobs': { values: [], types: ['core/kit/base'] },
  'core/policy/fleet': { values: ['core/kit/base'], types: ['core/wire/protocol'] },
  'core/policy/link': { values: ['core/kit/base'], types: ['core/policy/estimate', 'core/wire/protocol'] },
  'core/policy/quota': { values: [] },
  'core/policy/rollout': { values: ['core/kit/base', 'core/policy/fleet'], types: ['core/wire/protocol'] },
  'core/policy/upstream': { values: ['core/policy/estimate', 'core/policy/link'] },
  'core/policy/telemetry': { values: [], types: ['core/wire/protocol'] },

  // The link declares the ports that it needs; identity, jobs and remote implement them.
  // What leaves the device, and what may: the ways out take its types, and write to it.
  'agent/disclosures': { values: ['core'] },
  // Whether a bridge may get rows: pure, but for the file of the owner's policy.
  'agent/attestation': { values: ['core'] },
  'agent/link': { values: ['core'], types: ['agent/attestation', 'agent/disclosures'] },
  'agent/identity': { values: ['core'], types: ['agent/link'] },
  'agent/device': { values: ['core'] },
  'agent/telemetry': { values: ['core'], types: ['agent/device'] },
  'agent/remote': { values: ['core'], types: ['agent/link'] },
  'agent/bundles': { values: ['core'], types: ['agent/identity'] },
  'agent/hat': { values: ['core'], types: ['agent/link'] },
  'agent/slm': { values: ['core'] },
  // The open bundles, and their replacement while the agent runs.
  'agent/models': { values: ['core', 'agent/hat', 'agent/slm', 'agent/trial'], types: ['agent/bundles'] },
  'agent/metrics': { values: ['core'] },
  'agent/api': { values: ['core'], types: ['agent/metrics'] },
  // An endpoint made of endpoints, whichever they are: agent/parts chooses them.
  'agent/disco': { values: ['core'], types: ['agent/identity'] },
  'agent/pice': { values: ['core', 'agent/jobs', 'agent/slm'] },
  'agent/jobs': { values: ['core', 'agent/bundles', 'agent/slm/filler.ts', 'agent/slm/measure.ts'], types: ['agent/link'] },
  // Changes that are kept only if the device is healthy with them.
  'agent/trial': { values: ['core'] },
  // Jobs that change the agent itself, for the composition root.
  'agent/software': { values: ['core', 'agent/bundles', 'agent/jobs', 'agent/trial'] },
  'agent/config-layer': { values: ['core', 'agent/jobs', 'agent/trial'] },
  'agent/limits.ts': { values: ['core/answer/upstream', 'core/kit/base'] },
  // The migrations of every part's database.
  'agent/databases.ts': { values: ['core', 'agent'] },
  'agent/config.ts': { values: ['core', 'agent/disclosures/config.ts', 'agent/disco/config.ts', 'agent/hat', 'agent/limits.ts'] },
  // The parts of the composition root: nothing but agent.ts imports them.
  'agent/parts': { values: ['core', 'agent'] },
  'agent/variant.ts': { values: ['core'], types: ['agent/attestation', 'agent/hat', 'agent/slm'] },
  'agent/agent.ts': { values: ['core', 'agent'] },
  'agent/commands': {
    values: [
      'core',
      'agent/agent.ts',
      'agent/api/api-keys.ts',
      'agent/config.ts',
      'agent/limits.ts',
      'agent/parts/configured-files.ts',
      'agent/config-layer',
      'agent/software',
      'agent/trial',
      'agent/databases.ts',
      'agent/device',
      'agent/identity',
    ],
  },

  // Serving knows neither frames nor HAT: hat and api depend on it, never the reverse.
  'cloud-bridge/serving': { values: ['core'] },
  'cloud-bridge/hat': {
    values: ['core', 'cloud-bridge/serving'],
    types: ['cloud-bridge/config.ts', 'cloud-bridge/variant.ts'],
  },
  'cloud-bridge/llm': { values: ['core'], types: ['cloud-bridge/serving'] },
  // Sketches and expansions: above serving's answers and the queue, which know nothing of them.
  'cloud-bridge/pice': {
    values: ['core'],
    types: [
      'cloud-bridge/variant.ts',
      'cloud-bridge/config.ts',
      'cloud-bridge/limits.ts',
      'cloud-bridge/queue',
      'cloud-bridge/fleet',
      'cloud-bridge/llm',
      'cloud-bridge/presence',
    ],
  },
  'cloud-bridge/identity': { values: ['core'], types: ['cloud-bridge/config.ts'] },
  // Transport: imports no routes. Only parts/routes.ts wires routes.
  'cloud-bridge/http': { values: ['core', 'cloud-bridge/identity'] },
  'cloud-bridge/broker': {
    values: ['core', 'cloud-bridge/http', 'cloud-bridge/identity'],
    types: ['cloud-bridge/config.ts', 'cloud-bridge/limits.ts'],
  },
  'cloud-bridge/attestation': { values: ['core'] },
  'cloud-bridge/link': {
    values: ['core', 'cloud-bridge/http', 'cloud-bridge/identity'],
    types: ['cloud-bridge/attestation', 'cloud-bridge/hat'],
  },
  // What all parts know of the presence of devices; the fleet publishes it.
  'cloud-bridge/presence': { values: ['core'] },
  'cloud-bridge/queue': { values: ['core'], types: ['cloud-bridge/config.ts', 'cloud-bridge/link', 'cloud-bridge/presence'] },
  'cloud-bridge/fleet': {
    values: ['core'],
    types: ['cloud-bridge/config.ts', 'cloud-bridge/link', 'cloud-bridge/presence', 'cloud-bridge/queue'],
  },
  'cloud-bridge/home-assistant': { values: ['core'], types: ['cloud-bridge/fleet', 'cloud-bridge/link'] },
  // Above the queue, which knows nothing of rollouts.
  'cloud-bridge/rollout': { values: ['core'], types: ['cloud-bridge/presence', 'cloud-bridge/queue'] },
  'cloud-bridge/upstream': { values: ['core'], types: ['cloud-bridge/config.ts'] },
  'cloud-bridge/bundles': { values: ['core'] },
  'cloud-bridge/api': {
    values: ['core', 'cloud-bridge/http', 'cloud-bridge/identity'],
    types: [
      'cloud-bridge/bundles',
      'cloud-bridge/fleet',
      'cloud-bridge/llm',
      'cloud-bridge/queue',
      'cloud-bridge/rollout',
      'cloud-bridge/what-if',
    ],
  },
  // It runs the laboratory's simulator as a program, and imports nothing of it.
  'cloud-bridge/what-if': { values: ['core'] },
  // It runs in a browser: what it imports may not need Node, and knows the API by its types.
  'cloud-bridge/page': {
    values: [
      'core/kit/base/visible-text.ts',
      'core/policy/fleet',
      'core/policy/link',
      'core/wire/openai',
      'core/wire/protocol/disclosure-text.ts',
      'cloud-bridge/commands/figures.ts',
    ],
    types: ['core'],
  },
  'cloud-bridge/metrics': { values: ['core'], types: ['cloud-bridge/serving'] },
  // The migrations of every part's database, for those that copy and examine the databases.
  'cloud-bridge/databases.ts': {
    values: [
      'core',
      'cloud-bridge/fleet',
      'cloud-bridge/home-assistant',
      'cloud-bridge/identity',
      'cloud-bridge/llm',
      'cloud-bridge/pice',
      'cloud-bridge/queue',
      'cloud-bridge/rollout',
    ],
  },
  'cloud-bridge/backup': {
    values: [
      'core',
      'cloud-bridge/databases.ts',
      'cloud-bridge/identity',
      'cloud-bridge/queue',
      'cloud-bridge/replica-marker.ts',
    ],
  },
  'cloud-bridge/limits.ts': { values: ['core/answer/upstream', 'core/kit/base'] },
  'cloud-bridge/listener-settings.ts': { values: ['core'], types: ['cloud-bridge/limits.ts'] },
  'cloud-bridge/upstream-config.ts': { values: ['core'] },
  'cloud-bridge/config.ts': { values: ['core', 'cloud-bridge/limits.ts', 'cloud-bridge/upstream-config.ts'] },
  'cloud-bridge/replica-marker.ts': { values: ['core', 'cloud-bridge/databases.ts'] },
  'cloud-bridge/running-bridge.ts': { values: ['core'] },
  'cloud-bridge/replica': {
    values: [
      'core',
      'cloud-bridge/backup',
      'cloud-bridge/databases.ts',
      'cloud-bridge/http',
      'cloud-bridge/identity',
      'cloud-bridge/parts',
      'cloud-bridge/queue',
      'cloud-bridge/replica-marker.ts',
    ],
    types: ['cloud-bridge/config.ts', 'cloud-bridge/running-bridge.ts', 'cloud-bridge/variant.ts'],
  },
  // The parts of the composition root: nothing but bridge.ts imports them, and replica the few that a standby has too.
  'cloud-bridge/parts': { values: ['core', 'cloud-bridge'] },
  'cloud-bridge/variant.ts': { values: ['core'], types: ['cloud-bridge/attestation', 'cloud-bridge/serving'] },
  'cloud-bridge/bridge.ts': { values: ['core', 'cloud-bridge'] },
  'cloud-bridge/commands': {
    values: [
      'core',
      'cloud-bridge/bridge.ts',
      'cloud-bridge/broker/nats-admin.ts',
      'cloud-bridge/config.ts',
      'cloud-bridge/limits.ts',
      'cloud-bridge/parts/configured-files.ts',
      'cloud-bridge/identity',
      'cloud-bridge/backup',
      'cloud-bridge/databases.ts',
      'cloud-bridge/replica',
      'cloud-bridge/replica-marker.ts',
    ],
  },

  // The laboratory may import every library below it; only the front door and the demonstration import the laboratory.
  // Baselines come with a program that composes agents and bridges with them.
  'lab/baselines': { values: ['core', 'agent', 'cloud-bridge'], types: ['lab/cluster'] },
  'lab/plot': { values: ['core'] },
  'lab/cluster': { values: ['core'] },
  'lab/frame': { values: ['core', 'lab/cluster/cpu-times.ts', 'lab/plot'] },
  'lab/attack': { values: ['core'] },
  'lab/replay': { values: ['core/policy', 'lab/baselines/sketch-policies.ts'] },
  // The simulator runs the policies themselves, and none of the parts that carry them out.
  'lab/simulate': {
    values: [
      'core',
      'lab/baselines',
      'lab/cluster/rate-trace.ts',
      'lab/cluster/net-trace.ts',
      'lab/frame',
      'lab/plot',
      'lab/replay',
    ],
  },
  'lab/random-checkpoint.ts': { values: ['core'] },
  'lab/random-schema.ts': { values: ['core'] },
  'lab/bench': {
    values: [
      'core',
      'agent',
      'cloud-bridge',
      'lab/attack',
      'lab/baselines',
      'lab/cluster',
      'lab/frame',
      'lab/plot',
      'lab/random-checkpoint.ts',
      'lab/random-schema.ts',
      'lab/simulate',
    ],
  },
  'lab/bench/menu.ts': { values: ['core', 'lab/bench'] },
  // Validation compares the simulator with the live benchmarks, so that it is one of them.
  'lab/simulate/menu.ts': { values: ['core', 'lab/simulate', 'lab/bench/validation/bench.ts'] },
  'scripts/demonstration': { values: ['core', 'lab/cluster', 'lab/plot'] },
  'scripts/packaging': { values: ['core', 'lab/cluster'] },
  'scripts/docs': {
    values: [
      'brim.ts',
      'core',
      'agent/limits.ts',
      'agent/metrics',
      'cloud-bridge/limits.ts',
      'cloud-bridge/metrics',
      'lab/simulate/scenario/schema.ts',
    ],
  },
  'scripts/suitability': { values: ['core'] },
  'brim.ts': {
    values: [
      'core',
      'agent/commands',
      'cloud-bridge/commands',
      'lab/bench/menu.ts',
      'lab/simulate/menu.ts',
      'scripts/demonstration',
    ],
  },
}

describe('imports', () => {
  it('are found at all', () => {
    expect(imports.length).toBeGreaterThan(1_000)
  })

  it('come from files that a row of the table covers', () => {
    expect(files.filter((file) => rowOf(relative(root, file)) === undefined)).toEqual([])
  })

  it('cover every row of the table', () => {
    const used = new Set(files.map((file) => rowOf(relative(root, file))))
    expect(Object.keys(rules).filter((row) => !used.has(row))).toEqual([])
  })

  it('point only where the table allows', () => {
    expect(imports.filter((line) => !isAllowed(line)).map(({ from, to }) => `${from} → ${to}`)).toEqual([])
  })

  it('form no circle between files, types included', () => {
    expect(circles(imports.map(({ from, to }) => [from, to]))).toEqual([])
  })

  it('form no circle between folders, types included', () => {
    const rows = imports.map(({ from, to }) => [rowOf(from) ?? from, rowOf(to) ?? to] as const)
    expect(circles(rows.filter(([from, to]) => from !== to))).toEqual([])
  })
})

describe('the life of a private answer in docs/architecture.md', () => {
  const page = readFileSync(join(root, 'docs/architecture.md'), 'utf8')
  const section = page.split(/^## /m).find((part) => part.startsWith('The life of a private answer\n'))!
  const named = [...new Set([...section.matchAll(/\]\(\.\.\/([\w/.-]+\.ts)\)/g)].map(([, file]) => file!))]

  it('is what is wired: each file imports one that is named before it, or is imported by one', () => {
    const isJoined = (one: string, other: string) =>
      imports.some(({ from, to }) => (from === one && to === other) || (from === other && to === one))
    const alone = named.filter((file, at) => at > 0 && !named.slice(0, at).some((before) => isJoined(before, file)))
    expect(named.length).toBeGreaterThan(30)
    expect(alone).toEqual([])
  })

  it('passes tokens through at most five generators', () => {
    const generators = named.flatMap((file) => readFileSync(join(root, file), 'utf8').match(/async (function)?\s*\*/g) ?? [])
    expect(generators.length).toBeLessThanOrEqual(5)
  })
})

describe('policy and environment', () => {
  it('keep clocks, sockets, timers, randomness and packages out of core/policy', () => {
    const impure = /\b(Date\.now|performance\.now|Math\.random|setTimeout|setInterval|process\.)|from 'node:|from '(?!\.)/
    const broken = tsFiles(join(root, 'core/policy')).filter((file) => impure.test(readFileSync(file, 'utf8')))
    expect(broken.map((file) => relative(root, file))).toEqual([])
  })

  it('read the environment in the shell of the command line alone', () => {
    const broken = files.filter(
      (file) => !file.endsWith('core/kit/cli/program.ts') && /process\.env\b/.test(readFileSync(file, 'utf8')),
    )
    expect(broken.map((file) => relative(root, file))).toEqual([])
  })
})

describe('one mechanism for one idea', () => {
  it('sends HTTP requests with one client', () => {
    // The attacks misuse connections in ways that a client should not; the laboratory's scripts may fetch.
    const own = files.filter((file) => !relative(root, file).startsWith('lab/'))
    const sends = /import \{[^}]*\brequest\b[^}]*\} from 'node:https?'|\bfetch\(/
    const clients = own.filter((file) => sends.test(readFileSync(file, 'utf8'))).map((file) => relative(root, file))
    // A browser has a client of its own.
    expect(clients).toEqual(['core/kit/base/http-client.ts', 'cloud-bridge/page/api.ts'])
  })
})

describe('ways out of a device', () => {
  /** The agent's files from which a connection can be opened, and why no content of an answer leaves by it without an entry. */
  const connecting: Readonly<Record<string, string>> = {
    'agent/link/data-socket.ts': 'its one user, data-connection.ts, tells the ledger of rows; the rest are control messages',
    'agent/disco/ask-bridge.ts': 'openStream demands a `leaving`, and tells it first',
    'agent/parts/dispatch.ts': 'upstreamEndpoint demands a `leaving`, and tells it first',
    'agent/slm/server-model.ts': 'the same',
    'agent/link/mqtt-connection.ts': 'state, telemetry and log without text; results of jobs are told by parts/work.ts',
    'agent/disclosures/classifier.ts': 'loopback alone',
    'agent/bundles/get.ts': 'GET of bundles and releases',
    'agent/bundles/fetch-small.ts': 'reads what get.ts gets',
    'agent/link/find-bridges.ts': 'asks by multicast DNS for bridges, and sends nothing else',
    'agent/identity/credentials.ts': 'proofs of identity',
    'agent/identity/post-json.ts': 'enrolment',
    'agent/api/server.ts': 'listens',
    'agent/parts/api.ts': 'listens',
    'agent/commands/ask.ts': 'another process: a client of the agent, or of the bridge that its user names',
    'agent/commands/budget.ts': 'a client of the agent',
    'agent/commands/disclosures.ts': 'a client of the agent',
    'agent/commands/bridge-check.ts': 'checks that a port is open',
    'agent/commands/support-bundle.ts': 'what its user sends is in a file first',
  }
  const packages = [
    'ws',
    'mqtt',
    'node:net',
    'node:tls',
    'node:http',
    'node:https',
    'node:http2',
    'node:dgram',
    'bonjour-service',
  ]
  const harmless = ['isIP', 'isIPv4', 'isIPv6', 'BlockList']

  /** Names that a file takes as values, by module. */
  const valuesIn = (file: string) => {
    const pattern = /^(?:import|export)\s+(?!type\s)([^'"]*?)\s*from\s+'([^']+)'|\bimport\(\s*'([^']+)'\s*\)/gm
    return [...readFileSync(join(root, file), 'utf8').matchAll(pattern)].flatMap(([, names = '', named, dynamic]) => {
      const taken = (/\{([\s\S]*)\}/.exec(names)?.[1] ?? names).split(',').map((name) => name.trim())
      const values = dynamic === undefined ? taken.filter((name) => name !== '' && !name.startsWith('type ')) : ['*']
      const from = named ?? dynamic ?? ''
      return values.length > 0
        ? [{ from: from.startsWith('.') ? relative(root, resolve(root, dirname(file), from)) : from, values }]
        : []
    })
  }
  const connects = (file: string, reaching: ReadonlySet<string>) =>
    valuesIn(file).some(
      ({ from, values }) => reaching.has(from) || (packages.includes(from) && values.some((name) => !harmless.includes(name))),
    )

  it('are listed, each with what tells the ledger of disclosures', () => {
    const own = files.map((file) => relative(root, file))
    const reaching = new Set<string>()
    for (let before = -1; before < reaching.size; ) {
      before = reaching.size
      for (const file of own) if (file.startsWith('core/') && connects(file, reaching)) reaching.add(file)
    }
    const found = own.filter((file) => file.startsWith('agent/') && connects(file, reaching))
    expect(found.sort()).toEqual(Object.keys(connecting).sort())
  })

  it('take no `leaving` that tells nothing', () => {
    expect(matchesIn(tsFiles(join(root, 'agent')), /leftByClients/g)).toEqual([])
  })
})

describe('parts of a composition root', () => {
  const parts = ['agent/parts', 'cloud-bridge/parts'].flatMap((dir) => tsFiles(join(root, dir)))
  const maxInputs = 6
  const maxFields = 8

  it('have written interfaces', () => {
    expect(matchesIn(parts, /ReturnType<typeof \w+>/g)).toEqual([])
  })

  it(`take at most ${maxInputs} inputs, none of which is several parts in one`, () => {
    const many = parts.flatMap((file) =>
      [...readFileSync(file, 'utf8').matchAll(/^(?:export )?(?:async )?function (open\w+)\(([\s\S]*?)\)(?:: [^\n]+)? \{$/gm)]
        .filter(([, , inputs = '']) => inputsOf(inputs).length > maxInputs || /\w &|& \w/.test(inputs))
        .map(([, name]) => `${relative(root, file)}: ${name}`),
    )
    expect(many).toEqual([])
  })

  it(`have at most ${maxFields} fields`, () => {
    const large = parts.flatMap((file) =>
      [...readFileSync(file, 'utf8').matchAll(/^(?:export )?interface (\w+)[^{]*\{\n([\s\S]*?)^\}/gm)]
        .filter(([, , body = '']) => (body.match(/^ {2}(?:readonly )?\w+[?(:<]/gm) ?? []).length > maxFields)
        .map(([, name]) => `${relative(root, file)}: ${name}`),
    )
    expect(large).toEqual([])
  })

  it('are wired by name: no root spreads parts into another', () => {
    const roots = ['agent/agent.ts', 'cloud-bridge/bridge.ts'].map((file) => join(root, file))
    expect(matchesIn(roots, /const \w+ = \{ \.\.\.\w+, \.\.\./g)).toEqual([])
  })

  it('have parts of their own that are written down, too', () => {
    const sources = ['agent', 'cloud-bridge'].flatMap((dir) => tsFiles(join(root, dir)))
    expect(matchesIn(sources, /export type \w+ = (?:Awaited<)?ReturnType<typeof (?:open|create)\w+>/g)).toEqual([])
  })
})

describe('exported names', () => {
  /** A module of this kind exports this, whatever it is a module of. */
  const conventions = ['command', 'menu', 'options', 'summarise']
  /** The same part of an agent and of a bridge. */
  const counterparts = ['Base', 'openBase', 'readConfiguredFiles']

  it('of agent, bridge and core stand in one file each', () => {
    const declared = /^export (?:async )?(?:const|function\*?|class|interface|type) (\w+)/gm
    const filesOf = new Map<string, Set<string>>()
    for (const file of files.filter((each) => !relative(root, each).startsWith('lab/')))
      for (const [, name] of readFileSync(file, 'utf8').matchAll(declared))
        filesOf.set(name!, (filesOf.get(name!) ?? new Set()).add(relative(root, file)))
    const known = new Set([...conventions, ...counterparts])
    const doubled = [...filesOf].filter(([name, where]) => where.size > 1 && !known.has(name))
    expect(doubled.map(([name, where]) => `${name}: ${[...where].join(', ')}`)).toEqual([])
  })
})

/** @returns `file: text` of every match */
function matchesIn(sources: readonly string[], pattern: RegExp): string[] {
  return sources
    .flatMap((file) => [...readFileSync(file, 'utf8').matchAll(pattern)].map(([text]) => `${relative(root, file)}: ${text}`))
    .sort()
}

/** The parameters of a function: commas within braces and brackets separate none. */
function inputsOf(parameters: string): string[] {
  let depth = 0
  const inputs = ['']
  for (const character of parameters.replaceAll('=>', '')) {
    if ('{[(<'.includes(character)) depth += 1
    if ('}])>'.includes(character)) depth -= 1
    if (character === ',' && depth === 0) inputs.push('')
    else inputs[inputs.length - 1] += character
  }
  return inputs.filter((input) => input.trim() !== '')
}

/** The most specific row that covers a file. */
function rowOf(file: string): string | undefined {
  const rows = Object.keys(rules).filter((row) => isWithin(file, row))
  return rows.sort((a, b) => b.length - a.length)[0]
}

function isWithin(file: string, folder: string): boolean {
  return file === folder || file.startsWith(`${folder}/`)
}

function isAllowed({ from, to, typeOnly }: Import): boolean {
  const row = rowOf(from)
  if (row === undefined) return false
  if (rowOf(to) === row) return true
  const { values, types = [] } = rules[row]!
  return [...values, ...(typeOnly ? types : [])].some((folder) => isWithin(to, folder))
}

/** Strongly connected components of more than one node (Tarjan 1972). */
function circles(edges: readonly (readonly [string, string])[]): string[][] {
  const next = new Map<string, Set<string>>()
  for (const [from, to] of edges) next.set(from, (next.get(from) ?? new Set()).add(to))
  const order = new Map<string, number>()
  const low = new Map<string, number>()
  const stack: string[] = []
  const found: string[][] = []
  const visit = (node: string): void => {
    order.set(node, order.size)
    low.set(node, order.get(node)!)
    stack.push(node)
    for (const other of next.get(node) ?? []) {
      if (!order.has(other)) visit(other)
      if (stack.includes(other)) low.set(node, Math.min(low.get(node)!, low.get(other)!))
    }
    if (low.get(node) !== order.get(node)) return
    const component = stack.splice(stack.indexOf(node))
    if (component.length > 1) found.push(component.sort())
  }
  for (const node of next.keys()) if (!order.has(node)) visit(node)
  return found
}

function importsOf(file: string): Import[] {
  const source = readFileSync(file, 'utf8')
  const pattern = /^\s*(?:import|export)\s+(type\s)?[^'"]*?from\s+'(\.[^']+)'|import\(\s*'(\.[^']+)'\s*\)/gm
  return [...source.matchAll(pattern)].map((match) => ({
    from: relative(root, file),
    to: relative(root, resolve(dirname(file), match[2] ?? match[3] ?? '')),
    typeOnly: match[1] !== undefined,
  }))
}

function tsFiles(dir: string): string[] {
  return readdirSync(dir, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
}
