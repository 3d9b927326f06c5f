import { randomInt, X509Certificate } from 'node:crypto'
import { join } from 'node:path'
import { type Clock, systemClock } from '../core/base/clock.ts'
import { createClosers } from '../core/base/closers.ts'
import { createLogger, type Logger } from '../core/base/logger.ts'
import { isLoopback } from '../core/base/loopback.ts'
import { seededRandom } from '../core/base/random.ts'
import { pinOf } from '../core/base/tls-pin.ts'
import { version } from '../core/base/version.ts'
import { StateMonitor } from '../core/policy/hat/state-monitor.ts'
import { bundlesPath } from '../core/protocol/jobs.ts'
import { type DeviceState, dataPath } from '../core/protocol/messages.ts'
import { birthsTable, nextBirth } from '../core/store/births.ts'
import { JobStore } from '../core/store/job-store.ts'
import { jobTables } from '../core/store/job-tables.ts'
import { lockFolder } from '../core/store/lock-folder.ts'
import { openDatabase } from '../core/store/open-database.ts'
import { readHookSecret } from './broker/broker-secrets.ts'
import { hookBodyBytes, hookRoutes } from './broker/hook.ts'
import { openBroker } from './broker/open-broker.ts'
import { createBundlesHttp } from './bundles/http.ts'
import { type BridgeConfig, type BridgeSettings, readBridgeConfig } from './config.ts'
import { commandsTable, createCommands } from './fleet/commands.ts'
import { DeviceLogs } from './fleet/device-logs.ts'
import { FleetFeed } from './fleet/feed.ts'
import { createFleet } from './fleet/fleet.ts'
import { createHistory, historyTable } from './fleet/history.ts'
import { createFleetHttp, devicesPath, fleetPath } from './fleet/http.ts'
import { createLabels, labelsTable } from './fleet/labels.ts'
import { createRegistry, devicesTable } from './fleet/registry.ts'
import { createKvBudget } from './hat/kv-budget.ts'
import { createSessions } from './hat/sessions.ts'
import { adminPath, createAdminHttp, whoamiPath } from './identity/admin-http.ts'
import { createCallers } from './identity/callers.ts'
import { requiresProof } from './identity/exposure.ts'
import { createIdentities } from './identity/identities.ts'
import { Quotas } from './identity/quotas.ts'
import { openIdentityStore } from './identity/store.ts'
import { openCertificate } from './link/certificate.ts'
import { type ControlLink, connectControl } from './link/control.ts'
import { createDataPlane } from './link/data-plane.ts'
import { createFaults } from './link/faults.ts'
import { startHttpServer } from './link/http-server.ts'
import { ownHost, urlHost } from './link/listen.ts'
import { createJobsHttp, jobsPath } from './queue/http.ts'
import { createJobQueue } from './queue/job-queue.ts'
import { type Middle, openMiddle } from './serving/open-middle.ts'
import { StepLog } from './serving/step-log.ts'
import { createStepLoop, type EndedStep } from './serving/step-loop.ts'

export interface Bridge {
  readonly mqttUrl: string
  readonly httpUrl: string
  readonly dataUrl: string
  readonly modelId: string
  /** Of the key of its certificate, where it speaks TLS: what invitations and logins may hold it to. */
  readonly pin: string | undefined
  /** Whether those who connect now have to prove who they are. */
  readonly auth: boolean
  /** Says goodbye on the broker, ends every session, frees and closes everything. */
  close(): Promise<void>
}

const migrations = [birthsTable, devicesTable, labelsTable, commandsTable]
/** The control plane carries small JSON; whoever sends more is mistaken. */
const maxPacketBytes = 256 * 1024
const heartbeatMs = 15_000
/** Of a broker's address that names none. */
const defaultMqttPort = 1883
const helloTimeoutMs = 10_000
/** Steps that a prompt may be passed over. */
const patience = 4
/** Of the steps remembered for `/v1/steps`. */
const mostSteps = 8_192
/** Fewer rows of a prompt are not worth a place in a step. */
const leastPiece = 16
/** X_min of HAT Eq. 3: a smaller frame is mostly header and step. */
const leastChunk = 16
/** Changes of what the retained state tells are published at most so often. */
const announceEveryMs = 1_000
const lookForSilentMs = 5_000

/**
 * The composition root of the cloud's side: builds the parts, owns start and stop.
 * @throws BrimError CONFIG_INVALID, BUNDLE_*, LISTEN_*, BROKER_UNREACHABLE, STORE_FAILED, RUNTIME_*
 */
export async function startBridge(settings: BridgeSettings, clock: Clock = systemClock): Promise<Bridge> {
  const config = readBridgeConfig(settings)
  const { id, fleet, host } = config
  const logger = createLogger(config.logLevel, { bridge: id })
  const closers = createClosers()
  try {
    closers.push(lockFolder(config.stateDir))
    const store = openDatabase(join(config.stateDir, 'bridge.sqlite'), migrations)
    closers.push(() => store.close())
    let control: ControlLink | undefined
    const birth = nextBirth(store)
    const onUnreadable = createFaults({
      bridge: id,
      tell: (device, message) => control?.tell(device, 'faults', message),
      clock,
      logger: logger.child({ component: 'control' }),
    })
    const feed = new FleetFeed()
    const registryLog = logger.child({ component: 'registry' })
    const registry = createRegistry(store, clock, registryLog, onUnreadable, (device, what) => feed.tell(device, what))
    // Of its own: it may grow large, and none of it is worth a wait for the disk.
    const historyDatabase = openDatabase(join(config.stateDir, 'telemetry.sqlite'), [historyTable], 'NORMAL')
    closers.push(() => historyDatabase.close())
    const history = createHistory({
      store: historyDatabase,
      mostSamples: config.telemetrySamples,
      clock,
      wallMs: Date.now,
      logger: logger.child({ component: 'history' }),
    })
    closers.push(history.close)
    const identityStore = openIdentityStore(config.stateDir)
    closers.push(() => identityStore.close())
    const asks = requiresProof({ ...config, enrolled: identityStore.devices().length > 0 })
    const certificate = config.tls && openCertificate(config.tls, clock, logger.child({ component: 'tls' }))
    if (certificate) closers.push(certificate.close)
    if (!isLoopback(host) && !certificate)
      logger.warn({ host }, 'everything travels in plain text: tokens and hidden states can be read on the way')
    const identities = createIdentities({
      store: identityStore,
      bridge: id,
      fleet,
      asks,
      asksOnceEnrolled: config.auth !== false,
      mqttPort: () => Number(new URL(broker.url).port) || defaultMqttPort,
      mqttTls: certificate !== undefined,
      mqttUrl: () => (broker.external ? broker.url : undefined),
      onBegin: (device) => broker.admit(device),
      onEnd(device) {
        broker.cut(device)
        plane.cut(device)
        sessions.purge(device)
      },
      clock,
      logger: logger.child({ component: 'identity' }),
    })
    closers.push(identities.close)
    const gate = identities
    const hookSecretFile = config.broker?.hookSecretFile
    const hooks = hookSecretFile ? hookRoutes({ ...identities, fleet, gate, secret: readHookSecret(hookSecretFile) }) : {}
    const broker = await openBroker({
      ...config,
      bridge: id,
      port: config.mqttPort,
      maxPacketBytes,
      certificate,
      gate,
      ownToken: identities.ownToken,
      lastSaid: registry.lastSaid,
      logger: logger.child({ component: 'broker' }),
    })
    closers.push(broker.close)

    const middle = await openMiddle(config)
    closers.push(middle.close)
    const { modelId } = middle.manifest
    const announce = debounce(() => control?.announce(), announceEveryMs, clock)
    closers.push(announce.stop)
    const { loop, steps, budget, sessions } = serveMiddle(config, middle, { clock, logger, onCount: announce.trigger })
    closers.push(loop.close)
    const plane = createDataPlane({
      sessions,
      bridge: id,
      modelId,
      draftLimit: config.draftLimit,
      gate,
      heartbeatMs,
      helloTimeoutMs,
      clock,
      logger: logger.child({ component: 'link' }),
    })
    // Of its own: the queue's commits wait for nobody else's, and a fleet's results are of another size than its registry.
    const jobDatabase = openDatabase(join(config.stateDir, 'jobs.sqlite'), jobTables)
    closers.push(() => jobDatabase.close())
    const jobs = new JobStore(jobDatabase, seededRandom(randomInt(2 ** 32)))
    const { keepS, keepDeadS, keepCount: mostJobs, keepBytes: mostBytes } = config.jobs
    const queue = createJobQueue({
      jobs,
      retention: { doneMs: keepS * 1_000, deadMs: keepDeadS * 1_000, mostJobs, mostBytes },
      bridge: id,
      clock,
      wallMs: Date.now,
      publish: (device, leaf, message) => control?.tell(device, leaf, message),
      onUnreadable,
      logger: logger.child({ component: 'jobs' }),
    })
    closers.push(queue.close)
    const jobsHttp = createJobsHttp(queue, jobs)
    const bundlesLog = logger.child({ component: 'bundles' })
    const bundlesHttp = createBundlesHttp({ bundle: config.bundle, folder: config.bundles, logger: bundlesLog })
    const commands = createCommands({
      store,
      bridge: id,
      clock,
      wallMs: Date.now,
      publish: (device, message) => control?.tell(device, 'commands', message),
      onChange: (device) => feed.tell(device, 'commands'),
      onUnreadable,
      logger: logger.child({ component: 'commands' }),
    })
    closers.push(commands.close)
    const logs = new DeviceLogs(onUnreadable)
    const labels = createLabels(store)
    const quotas = new Quotas(identityStore, clock, () => Date.now())
    const callers = createCallers({ gate, store: identityStore, quotas, clock, logger: logger.child({ component: 'identity' }) })
    closers.push(callers.close)
    const admin = createAdminHttp({
      store: identityStore,
      quotas,
      bridge: id,
      fleet,
      logger: logger.child({ component: 'admin' }),
    })
    const startedMs = clock.nowMs()
    const uptimeS = () => Math.round((clock.nowMs() - startedMs) / 1_000)
    const fleetHttp = createFleetHttp({
      fleet: createFleet({
        registry,
        labels,
        identities: identityStore,
        jobs: { loads: () => jobs.loads(), heldBy: (device) => jobs.heldBy(device) },
        wallMs: Date.now,
      }),
      labels,
      commands,
      logs,
      history,
      feed,
      describe: () => ({
        bridge: id,
        version,
        modelId,
        uptimeS: uptimeS(),
        sessions: sessions.count,
        kvBytes: budget.usedBytes - sessions.keptBytes,
        kvBudgetBytes: config.kvBudgetBytes,
        jobs: jobs.counts(),
      }),
    })
    const http = await startHttpServer({
      host,
      port: config.httpPort,
      routes: {
        '/health': () => ({
          ok: true,
          version,
          modelId,
          sessions: sessions.count,
          kvBytes: budget.usedBytes - sessions.keptBytes,
          keptKvBytes: sessions.keptBytes,
          uptimeS: uptimeS(),
          pipeline: config.pipeline,
          serving: loop.metrics,
          jobs: { dispatchMs: queue.dispatchMs },
        }),
        '/v1/steps': () => ({ steps: steps.list() }),
      },
      open: ['/health'],
      certificate,
      callers,
      posts: { ...identities.posts, ...hooks },
      bodyLimits: hookBodyBytes,
      handlers: {
        [jobsPath]: jobsHttp.handle,
        [devicesPath]: fleetHttp.handle,
        [fleetPath]: fleetHttp.handle,
        [bundlesPath]: bundlesHttp.handle,
        [adminPath]: admin.handle,
        [whoamiPath]: admin.whoami,
      },
      needs: {
        [devicesPath]: fleetHttp.needs,
        [fleetPath]: fleetHttp.needs,
        [bundlesPath]: () => 'fetch',
        [adminPath]: admin.needs,
        [whoamiPath]: () => 'own-key',
      },
      upgrades: { [dataPath]: plane.upgrade },
      logger: logger.child({ component: 'http' }),
    })
    closers.push(http.close)
    closers.push(jobsHttp.close)
    closers.push(fleetHttp.close)
    closers.push(plane.close)
    closers.push(() => sessions.shutdown({ code: 'LINK_LOST', message: `bridge ${id} is shutting down` }))
    // Not before all ports are ours: a second bridge started by mistake must not declare the first one's devices lost.
    registry.startOver()
    queue.start()
    commands.start()
    const authority = `${urlHost(host)}:${http.port}`
    const dataUrl = config.dataUrl ?? `${certificate ? 'wss' : 'ws'}://${authority}${dataPath}`
    const deviceIs = (device: string, said: DeviceState) => {
      queue.deviceIs(device, said)
      commands.presence(device, said.state === 'ready' || said.state === 'draining')
    }
    control = await connectControl({
      url: broker.external
        ? broker.url
        : `${certificate ? 'mqtts' : 'mqtt'}://${urlHost(ownHost(host))}:${new URL(broker.url).port}`,
      own: !broker.external,
      password: broker.password ?? identities.ownToken,
      fleet,
      bridge: id,
      birth,
      describe: () => ({ bridge: version, modelId, data: dataUrl, sessions: sessions.count }),
      onDeviceState(device, payload) {
        const said = registry.heard(device, payload)
        if (said) deviceIs(device, said)
      },
      onDeviceReply: commands.heard,
      onDeviceLog(device, payload) {
        if (logs.heard(device, payload)) feed.tell(device, 'log')
      },
      onJobEvent: queue.heard,
      onDeviceTelemetry(device, payload) {
        const telemetry = registry.measured(device, payload)
        if (telemetry) history.add(device, telemetry)
      },
      logger: logger.child({ component: 'control' }),
    })
    closers.push(control.close)
    const joined = control
    const watching = every(lookForSilentMs, clock, () => {
      if (!joined.connected) return registry.deaf()
      for (const { device, state } of registry.missed()) deviceIs(device, state)
    })
    closers.push(watching.stop)
    logger.info({ birth, modelId, mqttUrl: broker.url, dataUrl, auth: identities.asks }, 'bridge ready')
    return {
      mqttUrl: broker.url,
      httpUrl: `${certificate ? 'https' : 'http'}://${authority}`,
      dataUrl,
      modelId,
      pin: certificate && pinOf(new X509Certificate(certificate.current.cert).publicKey),
      get auth() {
        return identities.asks
      },
      close: closers.closeAll,
    }
  } catch (error) {
    await closers.closeAll()
    throw error
  }
}

/** The middle part at the service of many sessions. */
function serveMiddle(
  config: BridgeConfig,
  { part, manifest, slots }: Middle,
  { clock, logger, onCount }: { clock: Clock; logger: Logger; onCount: () => void },
) {
  const { hidden, contextLimit } = manifest.dims
  const { tokenBudget, promptTokens, frameTokens, chunkTokens, draftLimit, pipeline } = config
  const { kvBudgetBytes, sessionsPerConnection, sessionIdleS, prefixKeepS } = config
  const monitor = new StateMonitor()
  const steps = new StepLog(mostSteps)
  const sinceMs = clock.nowMs()
  const onStep = (step: EndedStep) => {
    steps.record(step, sinceMs, monitor.g.knots().length === 0 ? undefined : monitor.g.delayS(step.tokens))
    monitor.record(step.tokens, step.computeMs / 1_000)
  }
  const loop = createStepLoop(
    part,
    { tokenBudget, promptTokens, slots, smallTokens: Math.max(leastPiece, draftLimit + 1), patience, pipeline },
    clock,
    onStep,
  )
  const budget = createKvBudget(part.manifest, { budgetBytes: kvBudgetBytes, contextLimit, startPositions: chunkTokens })
  const limits = {
    contextLimit,
    maxRows: frameTokens,
    sessionsPerPeer: sessionsPerConnection,
    idleMs: sessionIdleS * 1_000,
    keepMs: prefixKeepS * 1_000,
  }
  const log = logger.child({ component: 'hat' })
  // X_max: a chunk is computed in one step.
  const mostChunk = Math.min(tokenBudget, frameTokens)
  const chunks = {
    monitor,
    limits: { least: Math.min(leastChunk, mostChunk), most: mostChunk },
    pipeline,
    initialTokens: chunkTokens,
  }
  const sessions = createSessions({ part, width: hidden, loop, budget, chunks, limits, clock, logger: log, onCount })
  return { loop, steps, budget, sessions }
}

/** Runs `action` again and again. */
function every(ms: number, clock: Clock, action: () => void) {
  const stopping = new AbortController()
  const { signal } = stopping
  const sleep = () => clock.sleep(ms, signal).catch(() => {})
  const running = (async () => {
    for (await sleep(); !signal.aborted; await sleep()) action()
  })()
  return {
    async stop() {
      stopping.abort()
      await running
    },
  }
}

/** Runs `action` once, at most `everyMs` after the first of several triggers. */
function debounce(action: () => void, everyMs: number, clock: Clock) {
  const stopping = new AbortController()
  let waiting = false
  return {
    trigger() {
      if (waiting || stopping.signal.aborted) return
      waiting = true
      clock.sleep(everyMs, stopping.signal).then(
        () => {
          waiting = false
          action()
        },
        () => {},
      )
    },
    stop: () => stopping.abort(),
  }
}
