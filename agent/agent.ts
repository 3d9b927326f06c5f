import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import type { TokenEndpoint } from '../core/answer/endpoint.ts'
import { AnswerMeter } from '../core/answer/meter.ts'
import { type Clock, clockIsSet, nowIso, systemClock } from '../core/base/clock.ts'
import { type Closers, createClosers } from '../core/base/closers.ts'
import type { BrimError } from '../core/base/errors.ts'
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
import { startApi } from './api/server.ts'
import { BundleFolder } from './bundles/bundle-folder.ts'
import { type AgentConfig, type AgentSettings, readAgentConfig } from './config.ts'
import { type Host, openHost } from './device/host.ts'
import { createSampler } from './device/sampler.ts'
import { drafterMaker } from './hat/create-drafter.ts'
import { hatEndpoint } from './hat/endpoint.ts'
import type { DeviceModel } from './hat/open-device-model.ts'
import { PrefixMemory } from './hat/prefix-memory.ts'
import type { HatOptions } from './hat/session.ts'
import { openIdentities } from './identity/identities.ts'
import { instanceOf, instanceTable } from './identity/instance.ts'
import type { AnswerCounts } from './idle-memory.ts'
import { createDeviceJobs } from './jobs/device-jobs.ts'
import { hatGenerate, slmGenerate } from './jobs/generate.ts'
import { bundleInstall } from './jobs/install.ts'
import type { JobHandlers } from './jobs/job-handler.ts'
import { JobLedger, ledgerTable } from './jobs/ledger.ts'
import { ProfileStore, profileDevice, profileTable } from './jobs/profile.ts'
import { hatVerify } from './jobs/verify.ts'
import { BridgeLink } from './link/bridge-link.ts'
import { BridgeLinks } from './link/bridge-links.ts'
import { ActiveModels } from './models/active-models.ts'
import { BundleChoices, bundleChoicesTable } from './models/bundle-choices.ts'
import type { ActiveModel } from './models/model-slot.ts'
import { createRemote, remoteTables } from './remote/commands.ts'
import { slmEndpoint } from './slm/endpoint.ts'
import { ConditionMonitor } from './telemetry/condition-monitor.ts'
import { LogOutbox } from './telemetry/log-outbox.ts'
import { measurementsOf, rounded } from './telemetry/measurements.ts'
import { RecentErrors } from './telemetry/recent-errors.ts'
import { Reporter } from './telemetry/reporter.ts'
import { openSpoolDatabase, Spool } from './telemetry/spool.ts'

export interface Agent {
  /** http://127.0.0.1:port */
  readonly apiUrl: string
  /** Undefined: the agent waits for the job that installs its first bundle. */
  readonly modelId: string | undefined
  /** Answers so far. */
  readonly answers: AnswerCounts
  /** Name of the small model that answers can fall back to. */
  readonly slm: string | undefined
  /** Resolves when a bridge has refused this device, because another one uses its id. */
  readonly idTaken: Promise<BrimError>
  /** Stops answers in progress, publishes `disconnected`, frees and closes everything. */
  close(): Promise<void>
}

const migrations = [birthsTable, remoteTables, profileTable, bundleChoicesTable, instanceTable]
/** A model name that every client may use for this device's model. */
const anyModel = 'brim'
const seedBound = 2 ** 32
const dayMs = 24 * 3_600_000

/**
 * The composition root of the device's side: builds the parts, owns start and stop. The agent starts even if no bridge can be
 * reached, and without a bundle.
 * @throws BrimError CONFIG_INVALID, BUNDLE_*, TOKENIZER_INVALID, CHAT_TEMPLATE_INVALID, LISTEN_*, STORE_FAILED, RUNTIME_*, OUT_OF_MEMORY
 */
export async function startAgent(settings: AgentSettings, clock: Clock = systemClock, host: Host = openHost()): Promise<Agent> {
  const closers = createClosers()
  try {
    const base = await openBase(readAgentConfig(settings), clock, closers)
    const models = await openModels(base, closers)
    const links = openLinks(base, models, closers)
    const answering = new Answering(base, models, links)
    const work = openWork(base, models, links, answering)
    const reporter = openReporting(base, models, links, work, answering, host)
    const { config, logger, bundles, birth, remote } = base
    await bundles.removeUnused(models.folders, Date.now())
    const api = await startApi({
      clock,
      meter: answering.meter,
      nextSeed,
      // Read for each request, because the model may change.
      get endpoint() {
        return answering.required.endpoint
      },
      get slm() {
        return answering.slm
      },
      get modelNames() {
        return [answering.required.manifest.card.name, anyModel] as const
      },
      get createdAt() {
        return answering.required.manifest.card.createdAt
      },
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
        modelId: models.modelId ?? null,
        slm: answering.slm?.model.name ?? null,
        profile: work.profiles.last,
        clockIsSet: clockIsSet(),
        draining: remote.isDraining,
        ...links.status,
      }),
      problems: () => [...(models.problem ? [models.problem] : []), ...links.problems],
      logger: logger.child({ component: 'api' }),
    })
    closers.push(api.close)
    closers.push(work.jobs.close)
    // Only now that the port is bound: a second agent started by mistake must not replace the first one at the bridge.
    work.jobs.start(work.handlers())
    models.onChange(() => {
      answering.update()
      work.jobs.replaceHandlers(work.handlers())
      links.setModel(models.modelId)
    })
    links.start((url) => [work.jobs.service(url), remote.service(url)])
    reporter.start()
    closers.push(() => reporter.close())
    const { drafter } = config.draft
    const { modelId } = models
    const slm = answering.slm?.model.name
    logger.info({ birth, modelId, apiUrl: api.url, slm, drafter }, 'agent ready')
    return {
      apiUrl: api.url,
      get modelId() {
        return models.modelId
      },
      slm,
      answers: answering.meter,
      idTaken: links.idTaken,
      close: closers.closeAll,
    }
  } catch (error) {
    await closers.closeAll()
    throw error
  }
}

type Base = Awaited<ReturnType<typeof openBase>>
type Models = Awaited<ReturnType<typeof openModels>>
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
  const config = named
  const store = openDatabase(join(stateDir, 'agent.sqlite'), migrations)
  closers.push(() => store.close())
  const jobStore = openDatabase(join(stateDir, 'jobs.sqlite'), [ledgerTable])
  closers.push(() => jobStore.close())
  const birth = nextBirth(store)
  const instance = instanceOf(store, stateDir)

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
  return { config, clock, bundles, store, jobStore, verified, birth, instance, errors, outbox, logger, spool, identities, remote }
}

/** The device's parts of the split model, and its small model: each if it has one. */
async function openModels({ config, bundles, store, verified, logger }: Base, closers: Closers) {
  const configured = async (name: string | undefined) =>
    name === undefined ? undefined : { name, folder: await bundles.resolve(name) }
  const models = new ActiveModels({
    ...config,
    configured: { llm: await configured(config.bundle), slm: await configured(config.slm) },
    choices: new BundleChoices(store),
    folderOf: (modelId) => bundles.folderOf(modelId),
    verified,
    medusa: config.draft.drafter === 'medusa',
    speed: new DeviceSpeed(config.smoothing),
    logger: logger.child({ component: 'models' }),
  })
  closers.push(() => models.close())
  await models.openAll()
  return models
}

/** A link by each broker. */
function openLinks(base: Base, { modelId, speed }: Models, closers: Closers): BridgeLinks {
  const { config, birth, instance, identities, clock, logger, outbox, spool } = base
  const linkBy = (url: string) =>
    new BridgeLink({
      url,
      credentials: identities.at(url),
      dataUrl: config.dataUrl,
      fleet: config.fleet,
      device: config.id,
      birth,
      instance,
      agent: version,
      modelId,
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

const nextSeed = () => randomInt(seedBound)

/** The parts that make answers: HAT, and the small model as its fallback. They change with the models. */
class Answering {
  readonly meter: AnswerMeter
  /** The split model; undefined: there is none. */
  llm: ReturnType<typeof splitAnswering> | undefined
  slm: TokenEndpoint | undefined
  readonly #base: Base
  readonly #models: Models
  readonly #links: BridgeLinks

  constructor(base: Base, models: Models, links: BridgeLinks) {
    this.#base = base
    this.#models = models
    this.#links = links
    this.meter = new AnswerMeter(base.clock)
    this.update()
  }

  /** @throws BrimError MODEL_MISSING, or why the model was not opened */
  get required() {
    if (this.llm) return this.llm
    throw this.#models.problem ?? new Error('the parts that answer were not updated')
  }

  /** After a model was replaced. */
  update(): void {
    const { llm, slm, speed } = this.#models
    const { clock } = this.#base
    this.llm = llm.current && splitAnswering(this.#base, llm.current, speed, this.#links)
    this.slm = slm.current?.gate.wrap(slmEndpoint(slm.current.model, clock))
  }
}

/** HAT with the device's parts of the split model. */
function splitAnswering(
  { config, clock }: Base,
  { model, gate }: ActiveModel<DeviceModel>,
  speed: DeviceSpeed,
  links: BridgeLinks,
) {
  const { draft } = config
  const { adapter, medusa, input, head, text, manifest } = model
  const { dims } = manifest
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
    manifest,
    text,
    endpoint: gate.wrap(hatEndpoint(hat, text)),
    /** The same without the device's drafter. */
    draftedBy: (createDrafter: HatOptions['createDrafter']) =>
      gate.wrap(hatEndpoint({ ...hat, createDrafter, draftLimit: Number.POSITIVE_INFINITY, draftAhead: false }, text)),
  }
}

/** The jobs of this device. */
function openWork(base: Base, models: Models, links: BridgeLinks, answering: Answering) {
  const { config, bundles, store, jobStore, verified, identities, clock, logger } = base
  const { meter } = answering
  const profiles = new ProfileStore(store)
  const install = bundleInstall({
    ...config,
    folder: bundles,
    bridgeOf(url) {
      const credentials = identities.at(url)
      if (credentials) return { origin: credentials.origin, credentials }
      const dataUrl = links.all.find((link) => link.url === url)?.status.dataUrl
      // The data plane is a WebSocket on the bridge's HTTP port.
      return dataUrl === undefined ? undefined : { origin: new URL(dataUrl.replace(/^ws/, 'http')).origin, credentials }
    },
    inUse: () => models.folders,
    activate: (version, signal) => models.activate(version, signal),
    clock,
  })

  /** What the device can do with the models that it has now. */
  function handlers(): JobHandlers {
    const { llm, slm } = answering
    const small = slm && { modelId: models.slm.current?.model.modelId ?? '', endpoint: slm }
    const common = { meter, clock, nextSeed }
    const ofSplitModel = (split: NonNullable<typeof llm>): JobHandlers => ({
      'hat.generate': hatGenerate({ ...common, endpoint: split.endpoint }),
      'hat.verify': hatVerify(split.text, split.draftedBy),
      profile: profileDevice({
        llm: split.endpoint,
        llmId: split.manifest.modelId,
        speed: models.speed,
        slm: small,
        installed: () => bundles.list(),
        async open(folder) {
          const { openLocalModel } = await import('./slm/local-model.ts')
          const opened = await openLocalModel({ ...config, verified, bundle: folder })
          return { modelId: opened.modelId, endpoint: slmEndpoint(opened, clock), close: opened.close }
        },
        store: profiles,
        clock,
      }),
    })
    return {
      ...(llm ? ofSplitModel(llm) : {}),
      ...(slm ? { 'slm.generate': slmGenerate({ ...common, endpoint: slm }) } : {}),
      'bundle.install': install,
    }
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
  const { speed } = models
  const bundles = () => {
    const { manifest } = models.llm.current?.model ?? {}
    const small = models.slm.current?.model
    return {
      llm: manifest ? { name: manifest.card.name, modelId: manifest.modelId } : null,
      slm: small ? { name: small.text.name, modelId: small.modelId } : null,
    }
  }
  const monitor = new ConditionMonitor({
    sampler: createSampler({ host, stateDir: config.stateDir, clock, logger: logger.child({ component: 'device' }) }),
    answers: meter,
    errors,
    agent: version,
    modelId: () => models.modelId ?? null,
    work: () => ({ bundles: bundles(), jobs: jobs.counts, spool: spool.figures }),
    prefillTokensPerS() {
      const local = models.slm.current?.model
      const rate = rounded(local?.speed.prefillTokensPerS)
      return local && rate !== null ? { [local.text.name]: rate } : {}
    },
  })
  return new Reporter({
    links: links.all,
    hasBridge: () => links.hasBridge,
    replay: (leaf, message) => links.replay(leaf, message),
    spool,
    sample: (signal) => monitor.sample(signal),
    measure: (link) => measurementsOf(link, speed, monitor.latest),
    everyMs: config.telemetryS * 1_000,
    deadBands: config.deadBands,
    birth,
    clock,
  })
}
