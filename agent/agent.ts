import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import { type Clock, clockIsSet, nowIso, systemClock } from '../core/base/clock.ts'
import { createClosers } from '../core/base/closers.ts'
import { createLogger } from '../core/base/logger.ts'
import { seededRandom } from '../core/base/random.ts'
import { version } from '../core/base/version.ts'
import { DeviceSpeed } from '../core/policy/hat/device-speed.ts'
import type { Measurements } from '../core/policy/telemetry/dead-bands.ts'
import { birthsTable, nextBirth } from '../core/store/births.ts'
import { lockFolder } from '../core/store/lock-folder.ts'
import { openDatabase } from '../core/store/open-database.ts'
import { AnswerMeter } from './answer/meter.ts'
import { startApi } from './api/server.ts'
import { BundleFolder } from './bundles/bundle-folder.ts'
import { type AgentSettings, readAgentConfig } from './config.ts'
import { type Host, openHost } from './device/host.ts'
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
import { type BridgeLink, createBridgeLink } from './link/bridge-link.ts'
import { createBridgeLinks } from './link/bridge-links.ts'
import { createRemote, remoteTables } from './remote/commands.ts'
import { slmEndpoint } from './slm/endpoint.ts'
import { type LocalModel, openLocalModel } from './slm/local-model.ts'
import { LogOutbox } from './telemetry/log-outbox.ts'
import { createMonitor } from './telemetry/monitor.ts'
import { RecentErrors } from './telemetry/recent-errors.ts'
import { startReplay } from './telemetry/replay.ts'
import { openSpoolDatabase, Spool } from './telemetry/spool.ts'
import { measuredOf, startTelemetry } from './telemetry/telemetry.ts'

export interface Agent {
  /** http://127.0.0.1:port */
  readonly apiUrl: string
  readonly modelId: string
  /** Name of the small model that answers may fall back to. */
  readonly slm: string | undefined
  /** Stops answers under way, says goodbye on the broker, frees and closes everything. */
  close(): Promise<void>
}

const migrations = [birthsTable, remoteTables, profileTable]
/** What any client may call the model of this device. */
const anyModel = 'brim'
const seedBound = 2 ** 32
const dayMs = 24 * 3_600_000

/**
 * The composition root of the device's side: builds the parts, owns start and stop. A bridge that cannot be reached is
 * no reason not to start.
 * @throws BrimError CONFIG_INVALID, BUNDLE_*, TOKENIZER_INVALID, CHAT_TEMPLATE_INVALID, LISTEN_*, STORE_FAILED, RUNTIME_*, OUT_OF_MEMORY
 */
export async function startAgent(settings: AgentSettings, clock: Clock = systemClock, host: Host = openHost()): Promise<Agent> {
  const named = readAgentConfig(settings)
  const { id, fleet, draft, deadBands } = named
  const bundles = new BundleFolder(named.stateDir)
  const errors = new RecentErrors()
  let birth = 1
  const outbox = new LogOutbox(clock, () => birth)
  const logger = createLogger(named.logLevel, { device: id }, (error) => errors.add(error), outbox)
  const closers = createClosers()
  try {
    closers.push(lockFolder(named.stateDir))
    await bundles.recover()
    const config = {
      ...named,
      bundle: await bundles.resolve(named.bundle),
      slm: named.slm === undefined ? undefined : await bundles.resolve(named.slm),
    }
    const store = openDatabase(join(config.stateDir, 'agent.sqlite'), migrations)
    closers.push(() => store.close())
    birth = nextBirth(store)
    const model = await openDeviceModel({ ...config, medusa: draft.drafter === 'medusa' })
    closers.push(model.close)
    const { manifest, adapter, medusa, input, head } = model
    const { modelId, dims, card } = manifest

    const local = config.slm === undefined ? undefined : await openLocalModel({ ...config, bundle: config.slm })
    if (local) closers.push(local.close)
    const slm = local?.text.name
    const versions = {
      llm: { name: card.name, modelId },
      slm: local ? { name: local.text.name, modelId: local.modelId } : null,
    }

    const jobDatabase = openDatabase(join(config.stateDir, 'jobs.sqlite'), [ledgerTable])
    closers.push(() => jobDatabase.close())
    const jobs = createDeviceJobs({
      ledger: new JobLedger(jobDatabase),
      clock,
      logger: logger.child({ component: 'jobs' }),
    })

    const remote = createRemote({
      store,
      log: outbox,
      wallMs: () => (clockIsSet() ? Date.now() : undefined),
      logger: logger.child({ component: 'remote' }),
    })
    const speed = new DeviceSpeed()
    if (!clockIsSet())
      logger.warn({ at: nowIso() }, 'the clock of this device is not set: its log has wrong times, all else works')
    const identities = openIdentities(config, clock, logger.child({ component: 'identity' }))
    closers.push(identities.close)
    const spoolLogger = logger.child({ component: 'spool' })
    const spoolDatabase = openSpoolDatabase(join(config.stateDir, 'spool.sqlite'), spoolLogger)
    closers.push(() => spoolDatabase.close())
    const spool = new Spool({
      store: spoolDatabase,
      birth,
      limits: { maxBytes: config.spoolMb * 2 ** 20, maxAgeMs: config.spoolDays * dayMs },
      clock,
      wall: () => ({ ms: Date.now(), isSet: clockIsSet() }),
      logger: spoolLogger,
    })
    const answers = new AnswerMeter(clock)
    const monitor = createMonitor({
      host,
      stateDir: config.stateDir,
      everyMs: config.telemetryS * 1_000,
      answers,
      errors,
      agent: version,
      modelId,
      work: () => ({ bundles: versions, jobs: jobs.counts, spool: spool.figures }),
      prefillTokensPerS: () => ratesOf(local),
      clock,
      logger: logger.child({ component: 'device' }),
    })
    closers.push(monitor.close)
    const linkTo = (url: string) =>
      createBridgeLink({
        url,
        credentials: identities.at(url),
        dataUrl: config.dataUrl,
        fleet,
        device: id,
        birth,
        agent: version,
        modelId,
        speed,
        condition: monitor.latest,
        telemetryS: config.telemetryS,
        deadBands,
        heartbeatS: config.heartbeatS,
        jobs: jobs.port(url),
        remote: remote.port(url),
        clock,
        random: seededRandom(randomInt(seedBound)),
        logger: logger.child({ component: 'link', broker: url }),
      })
    const byBroker = new Map<string, BridgeLink>((config.bridges ?? identities.bridges).map((url) => [url, linkTo(url)]))
    const link = createBridgeLinks([...byBroker.values()], logger.child({ component: 'link' }))
    closers.push(link.close)
    const offline = () => measuredOf(undefined, undefined, speed, monitor.latest())
    const keep = (measured: Measurements) => {
      if (link.hasBridge) return false
      spool.put('telemetry', measured)
      return true
    }
    outbox.spoolTo({
      isHeard: () => link.hasBridge,
      // Its time and birth are the spool's to know: they are mended once the clock is set.
      put: ({ v: _, at: __, birth: ___, ...line }) => spool.put('log', line),
    })

    const hat: HatOptions = {
      dims,
      input,
      head,
      speed,
      wire: config.wire,
      padding: config.padding,
      prefill: config.prefill,
      prefixes: config.reuse ? new PrefixMemory(clock) : undefined,
      open: link.open,
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
    const endpoint = hatEndpoint(hat, model.text)
    const slmAnswers = local && slmEndpoint(local, clock)
    const nextSeed = () => randomInt(seedBound)
    const answering = { clock, meter: answers }
    const handlers: Record<string, JobHandler> = {}
    handlers['hat.generate'] = hatGenerate({ ...answering, endpoint, nextSeed })
    handlers['hat.verify'] = hatVerify(model.text, (createDrafter) =>
      hatEndpoint({ ...hat, createDrafter, draftLimit: Number.POSITIVE_INFINITY, draftAhead: false }, model.text),
    )
    const profiles = new ProfileStore(store)
    handlers.profile = profileDevice({
      llm: endpoint,
      llmId: modelId,
      speed,
      slm: local && slmAnswers && { modelId: local.modelId, endpoint: slmAnswers },
      installed: () => bundles.list(),
      async open(folder) {
        const opened = await openLocalModel({ ...config, bundle: folder })
        return { modelId: opened.modelId, endpoint: slmEndpoint(opened, clock), close: opened.close }
      },
      store: profiles,
      clock,
    })
    if (slmAnswers) handlers['slm.generate'] = slmGenerate({ ...answering, endpoint: slmAnswers, nextSeed })
    const inUse = [config.bundle, ...(config.slm === undefined ? [] : [config.slm])]
    handlers['bundle.install'] = bundleInstall({
      ...config,
      folder: bundles,
      bridgeOf(url) {
        const dataUrl = byBroker.get(url)?.status().dataUrl
        // The bridge's HTTP is where its data plane is: a WebSocket begins as a request there.
        return dataUrl === undefined
          ? undefined
          : { origin: new URL(dataUrl.replace(/^ws/, 'http')).origin, credentials: identities.at(url) }
      },
      inUse,
      clock,
    })
    await bundles.removeUnused(inUse, Date.now())
    const api = await startApi({
      ...answering,
      endpoint,
      slm: slmAnswers,
      modelNames: [card.name, anyModel],
      createdAt: card.createdAt,
      nextSeed,
      host: config.apiHost,
      port: config.apiPort,
      health: () => ({
        device: id,
        version,
        modelId,
        slm: slm ?? null,
        profile: profiles.last,
        clockIsSet: clockIsSet(),
        draining: remote.isDraining,
        ...link.status(),
      }),
      logger: logger.child({ component: 'api' }),
    })
    closers.push(api.close)
    closers.push(jobs.close)
    // Not before the port is ours: a second agent started by mistake must not take the first one's place at the bridge.
    jobs.start(handlers)
    link.start()
    if (config.telemetryS > 0) {
      monitor.start()
      const everyMs = config.telemetryS * 1_000
      closers.push(startTelemetry({ everyMs, deadBands, clock, measure: offline, report: keep }).stop)
    }
    closers.push(startReplay({ spool, links: link, clock }).close)
    logger.info({ birth, modelId, apiUrl: api.url, slm, drafter: draft.drafter, adapter: adapter !== undefined }, 'agent ready')
    return { apiUrl: api.url, modelId, slm, close: closers.closeAll }
  } catch (error) {
    await closers.closeAll()
    throw error
  }
}

/** Four digits are more than it is known by. */
function ratesOf(local: LocalModel | undefined): Record<string, number> {
  const rate = local?.speed.prefillTokensPerS
  return local && rate !== undefined ? { [local.text.name]: Number(rate.toPrecision(4)) } : {}
}
