import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import { type Clock, clockIsSet, nowIso, systemClock } from '../core/base/clock.ts'
import { type Closers, createClosers } from '../core/base/closers.ts'
import { createLogger } from '../core/base/logger.ts'
import { seededRandom } from '../core/base/random.ts'
import { shownUrl } from '../core/base/shown-url.ts'
import { version } from '../core/base/version.ts'
import type { HttpLimits } from '../core/listen/http-listener.ts'
import { VerifiedBundles } from '../core/model/verified-bundles.ts'
import { readApiKeys } from '../core/openai/api-keys.ts'
import { DeviceSpeed } from '../core/policy/hat/device-speed.ts'
import { birthsTable, nextBirth } from '../core/store/births.ts'
import { lockFolder } from '../core/store/lock-folder.ts'
import { openDatabase } from '../core/store/open-database.ts'
import { AnswerMeter } from './answer/meter.ts'
import { startApi } from './api/server.ts'
import { BundleFolder } from './bundles/bundle-folder.ts'
import { type AgentConfig, type AgentSettings, readAgentConfig } from './config.ts'
import { type Host, openHost } from './device/host.ts'
import { createSampler } from './device/sampler.ts'
import { drafterMaker } from './hat/create-drafter.ts'
import { hatEndpoint } from './hat/endpoint.ts'
import { openDeviceModel } from './hat/open-device-model.ts'
import { PrefixMemory } from './hat/prefix-memory.ts'
import type { HatOptions } from './hat/session.ts'
import { openIdentities } from './identity/identities.ts'
import { createDeviceJobs } from './jobs/device-jobs.ts'
import { hatGenerate, slmGenerate } from './jobs/generate.ts'
import { bundleInstall } from './jobs/install.ts'
import type { JobHandler } from './jobs/job-handler.ts'
import { JobLedger, ledgerTable } from './jobs/ledger.ts'
import { ProfileStore, profileDevice, profileTable } from './jobs/profile.ts'
import { hatVerify } from './jobs/verify.ts'
import { BridgeLink } from './link/bridge-link.ts'
import { BridgeLinks } from './link/bridge-links.ts'
import { createRemote, remoteTables } from './remote/commands.ts'
import { slmEndpoint } from './slm/endpoint.ts'
import { openLocalModel } from './slm/local-model.ts'
import { ConditionMonitor } from './telemetry/condition-monitor.ts'
import { LogOutbox } from './telemetry/log-outbox.ts'
import { measurementsOf, rounded } from './telemetry/measurements.ts'
import { RecentErrors } from './telemetry/recent-errors.ts'
import { Reporter } from './telemetry/reporter.ts'
import { openSpoolDatabase, Spool } from './telemetry/spool.ts'

export interface Agent {
  /** http://127.0.0.1:port */
  readonly apiUrl: string
  readonly modelId: string
  /** Name of the small model that answers can fall back to. */
  readonly slm: string | undefined
  /** Stops answers in progress, publishes `disconnected`, frees and closes everything. */
  close(): Promise<void>
}

const migrations = [birthsTable, remoteTables, profileTable]
/** A model name that every client may use for this device's model. */
const anyModel = 'brim'
const seedBound = 2 ** 32
const dayMs = 24 * 3_600_000

/**
 * The composition root of the device's side: builds the parts, owns start and stop. The agent starts even if no bridge can be
 * reached.
 * @throws BrimError CONFIG_INVALID, BUNDLE_*, TOKENIZER_INVALID, CHAT_TEMPLATE_INVALID, LISTEN_*, STORE_FAILED, RUNTIME_*, OUT_OF_MEMORY
 */
export async function startAgent(settings: AgentSettings, clock: Clock = systemClock, host: Host = openHost()): Promise<Agent> {
  const closers = createClosers()
  try {
    const base = await openBase(readAgentConfig(settings), clock, closers)
    const models = await openModels(base, closers)
    const links = openLinks(base, models, closers)
    const answering = openAnswering(base, models, links)
    const work = openWork(base, models, links, answering)
    const reporter = openReporting(base, models, links, work, answering, host)
    const { config, logger, bundles, birth, remote } = base
    const { modelId } = models.manifest
    const slm = models.local?.text.name
    await bundles.removeUnused(base.inUse, Date.now())
    const api = await startApi({
      ...answering,
      modelNames: [models.manifest.card.name, anyModel],
      createdAt: models.manifest.card.createdAt,
      host: config.apiHost,
      port: config.apiPort,
      access: {
        keys: config.apiKeyFile === undefined ? undefined : readApiKeys(config.apiKeyFile),
        allowedHosts: config.apiAllowedHosts ?? [],
      },
      maxBodyBytes: config.limits.apiBodyBytes,
      limits: apiLimits(config.limits),
      requestLimits: config.limits,
      health: () => ({
        device: config.id,
        version,
        modelId,
        slm: slm ?? null,
        profile: work.profiles.last,
        clockIsSet: clockIsSet(),
        draining: remote.isDraining,
        ...links.status,
      }),
      problems: () => links.problems,
      logger: logger.child({ component: 'api' }),
    })
    closers.push(api.close)
    closers.push(work.jobs.close)
    // Only now that the port is bound: a second agent started by mistake must not replace the first one at the bridge.
    work.jobs.start(work.handlers)
    links.start((url) => [work.jobs.service(url), remote.service(url)])
    reporter.start()
    closers.push(() => reporter.close())
    const { drafter } = config.draft
    logger.info({ birth, modelId, apiUrl: api.url, slm, drafter, adapter: models.adapter !== undefined }, 'agent ready')
    return { apiUrl: api.url, modelId, slm, close: closers.closeAll }
  } catch (error) {
    await closers.closeAll()
    throw error
  }
}

type Base = Awaited<ReturnType<typeof openBase>>
type Models = Awaited<ReturnType<typeof openModels>>
type Answering = ReturnType<typeof openAnswering>
type Work = ReturnType<typeof openWork>

function apiLimits({ apiConnections, apiFirstRequestS, apiRequestS }: AgentConfig['limits']): HttpLimits {
  const connections = {
    total: apiConnections,
    perNetwork: apiConnections,
    waiting: apiConnections,
    firstRequestMs: apiFirstRequestS * 1_000,
  }
  // An answer may compute for minutes before its first byte.
  return { connections, requestMs: apiRequestS * 1_000, stalledMs: 0 }
}

/** State folder, databases, log and identity, which every other part uses. */
async function openBase(named: AgentConfig, clock: Clock, closers: Closers) {
  const { stateDir, spoolMb, spoolDays } = named
  closers.push(lockFolder(stateDir))
  const bundles = new BundleFolder(stateDir)
  await bundles.recover()
  const config = {
    ...named,
    bundle: await bundles.resolve(named.bundle),
    slm: named.slm === undefined ? undefined : await bundles.resolve(named.slm),
  }
  const inUse = [config.bundle, ...(config.slm === undefined ? [] : [config.slm])]
  const store = openDatabase(join(stateDir, 'agent.sqlite'), migrations)
  closers.push(() => store.close())
  const jobStore = openDatabase(join(stateDir, 'jobs.sqlite'), [ledgerTable])
  closers.push(() => jobStore.close())
  const birth = nextBirth(store)

  const errors = new RecentErrors()
  const outbox = new LogOutbox(clock, birth)
  const logger = createLogger(
    config.logLevel,
    { device: config.id },
    { ...config.log, onError: (error) => errors.add(error), tap: outbox },
  )
  if (!clockIsSet()) logger.warn({ at: nowIso() }, 'clock of this device not set: log lines have wrong times')

  const spoolLogger = logger.child({ component: 'spool' })
  const spoolStore = openSpoolDatabase(join(stateDir, 'spool.sqlite'), spoolLogger)
  closers.push(() => spoolStore.close())
  const spool = new Spool({
    store: spoolStore,
    birth,
    limits: { maxBytes: spoolMb * 2 ** 20, maxAgeMs: spoolDays * dayMs },
    clock,
    wall: () => ({ ms: Date.now(), isSet: clockIsSet() }),
    logger: spoolLogger,
  })
  const identities = openIdentities(config, clock, logger.child({ component: 'identity' }))
  closers.push(identities.close)
  const remote = createRemote({
    store,
    log: outbox,
    wallMs: () => (clockIsSet() ? Date.now() : undefined),
    logger: logger.child({ component: 'remote' }),
  })
  const verified = new VerifiedBundles(stateDir)
  return { config, clock, bundles, inUse, store, jobStore, verified, birth, errors, outbox, logger, spool, identities, remote }
}

/** The device's parts of the split model, and its small model if it has one. */
async function openModels({ config, verified }: Base, closers: Closers) {
  const model = await openDeviceModel({ ...config, verified, medusa: config.draft.drafter === 'medusa' })
  closers.push(model.close)
  const local = config.slm === undefined ? undefined : await openLocalModel({ ...config, verified, bundle: config.slm })
  if (local) closers.push(local.close)
  return { ...model, local, speed: new DeviceSpeed(config.smoothing) }
}

/** A link by each broker. */
function openLinks(base: Base, { manifest, speed }: Models, closers: Closers): BridgeLinks {
  const { config, birth, identities, clock, logger, outbox, spool } = base
  const linkBy = (url: string) =>
    new BridgeLink({
      url,
      credentials: identities.at(url),
      dataUrl: config.dataUrl,
      fleet: config.fleet,
      device: config.id,
      birth,
      agent: version,
      modelId: manifest.modelId,
      speed,
      smoothing: config.smoothing,
      heartbeatS: config.heartbeatS,
      reconnectMaxS: config.reconnectMaxS,
      clock,
      random: seededRandom(randomInt(seedBound)),
      logger: logger.child({ component: 'link', broker: shownUrl(url) }),
    })
  const links = new BridgeLinks(identities.bridges.map(linkBy), logger.child({ component: 'link' }))
  closers.push(() => links.close())
  outbox.start(links, spool)
  return links
}

/** The parts that make answers: HAT, and the small model as its fallback. */
function openAnswering({ config, clock }: Base, model: Models, links: BridgeLinks) {
  const { draft } = config
  const { adapter, medusa, input, head, speed, local, text } = model
  const { dims } = model.manifest
  const hat: HatOptions = {
    dims,
    input,
    head,
    speed,
    wire: config.wire,
    padding: config.padding,
    prefill: config.prefill,
    prefixes: config.reuse ? new PrefixMemory(clock) : undefined,
    open: (signal, options) => links.open(signal, options),
    createDrafter: drafterMaker(draft.drafter, {
      adapter,
      medusa,
      vocab: dims.vocab,
      head,
      threshold: draft.threshold,
      draftAhead: draft.ahead,
    }),
    threshold: draft.threshold,
    draftLimit: draft.drafter === 'none' ? 0 : (draft.limit ?? Number.POSITIVE_INFINITY),
    draftAhead: draft.ahead,
    patienceMs: config.patienceS * 1_000,
    clock,
  }
  return {
    hat,
    endpoint: hatEndpoint(hat, text),
    slm: local && slmEndpoint(local, clock),
    nextSeed: () => randomInt(seedBound),
    meter: new AnswerMeter(clock),
    clock,
  }
}

/** The jobs of this device. */
function openWork(base: Base, { manifest, speed, local, text }: Models, links: BridgeLinks, answering: Answering) {
  const { config, bundles, inUse, store, jobStore, verified, identities, clock, logger } = base
  const { hat, endpoint, slm } = answering
  const profiles = new ProfileStore(store)
  const handlers: Record<string, JobHandler> = {
    'hat.generate': hatGenerate(answering),
    'hat.verify': hatVerify(text, (createDrafter) =>
      hatEndpoint({ ...hat, createDrafter, draftLimit: Number.POSITIVE_INFINITY, draftAhead: false }, text),
    ),
    ...(slm ? { 'slm.generate': slmGenerate({ ...answering, endpoint: slm }) } : {}),
    profile: profileDevice({
      llm: endpoint,
      llmId: manifest.modelId,
      speed,
      slm: local && slm && { modelId: local.modelId, endpoint: slm },
      installed: () => bundles.list(),
      async open(folder) {
        const opened = await openLocalModel({ ...config, verified, bundle: folder })
        return { modelId: opened.modelId, endpoint: slmEndpoint(opened, clock), close: opened.close }
      },
      store: profiles,
      clock,
    }),
    'bundle.install': bundleInstall({
      ...config,
      folder: bundles,
      bridgeOf(url) {
        const credentials = identities.at(url)
        if (credentials) return { origin: credentials.origin, credentials }
        const dataUrl = links.all.find((link) => link.url === url)?.status.dataUrl
        // The data plane is a WebSocket on the bridge's HTTP port.
        return dataUrl === undefined ? undefined : { origin: new URL(dataUrl.replace(/^ws/, 'http')).origin, credentials }
      },
      inUse,
      clock,
    }),
  }
  const jobLogger = logger.child({ component: 'jobs' })
  return { profiles, handlers, jobs: createDeviceJobs({ ledger: new JobLedger(jobStore), clock, logger: jobLogger }) }
}

/** Samples of the device's condition, reports, and the replay of the spool. */
function openReporting(
  base: Base,
  models: Models,
  links: BridgeLinks,
  { jobs }: Work,
  { meter }: Answering,
  host: Host,
): Reporter {
  const { config, errors, spool, birth, clock, logger } = base
  const { manifest, local, speed } = models
  const bundles = {
    llm: { name: manifest.card.name, modelId: manifest.modelId },
    slm: local ? { name: local.text.name, modelId: local.modelId } : null,
  }
  const monitor = new ConditionMonitor({
    sampler: createSampler({ host, stateDir: config.stateDir, clock, logger: logger.child({ component: 'device' }) }),
    answers: meter,
    errors,
    agent: version,
    modelId: manifest.modelId,
    work: () => ({ bundles, jobs: jobs.counts, spool: spool.figures }),
    prefillTokensPerS() {
      const rate = rounded(local?.speed.prefillTokensPerS)
      return local && rate !== null ? { [local.text.name]: rate } : {}
    },
  })
  return new Reporter({
    links: links.all,
    hasBridge: () => links.hasBridge,
    replay: (leaf, message) => links.publish(leaf, message),
    spool,
    sample: (signal) => monitor.sample(signal),
    measure: (link) => measurementsOf(link, speed, monitor.latest),
    everyMs: config.telemetryS * 1_000,
    deadBands: config.deadBands,
    birth,
    clock,
  })
}
