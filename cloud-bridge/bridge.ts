import { X509Certificate } from 'node:crypto'
import { join } from 'node:path'
import { type Clock, systemClock } from '../core/base/clock.ts'
import { type Closers, createClosers } from '../core/base/closers.ts'
import { createLogger, type Logger } from '../core/base/logger.ts'
import { isLoopback } from '../core/base/loopback.ts'
import { pinOf } from '../core/base/tls-pin.ts'
import { version } from '../core/base/version.ts'
import { maxOpenFiles } from '../core/listen/max-open-files.ts'
import { maxFrameBytesOf } from '../core/protocol/frame.ts'
import { dataPath } from '../core/protocol/messages.ts'
import { mqttPorts } from '../core/protocol/mqtt-url.ts'
import { birthsTable, nextBirth } from '../core/store/births.ts'
import { lockFolder } from '../core/store/lock-folder.ts'
import { openDatabase } from '../core/store/open-database.ts'
import { adminRoutes } from './api/admin.ts'
import { bridgeRoutes } from './api/bridge.ts'
import { brokerHookRoutes } from './api/broker-hooks.ts'
import { bundleRoutes, openServedBundles } from './api/bundles.ts'
import { deviceRoutes } from './api/devices.ts'
import { identityRoutes } from './api/identity.ts'
import { jobRoutes } from './api/jobs.ts'
import { readHookSecret } from './broker/broker-secrets.ts'
import type { ControlBroker } from './broker/control-broker.ts'
import { openBroker } from './broker/open-broker.ts'
import { type BridgeConfig, type BridgeSettings, readBridgeConfig } from './config.ts'
import { fleetTables, openFleet } from './fleet/open-fleet.ts'
import { serveMiddle } from './hat/serve-middle.ts'
import { openCertificate } from './http/certificate.ts'
import { ownHost, urlHost } from './http/listen.ts'
import { startHttpServer } from './http/server.ts'
import { openAuditExport } from './identity/audit-export.ts'
import { createAuthorizer } from './identity/authorizer.ts'
import { enrolmentRefusal, requiresAuth } from './identity/exposure.ts'
import { Grants } from './identity/grants.ts'
import { createIdentities } from './identity/identities.ts'
import { Quotas } from './identity/quotas.ts'
import { openIdentityStore } from './identity/store.ts'
import { connectControl } from './link/control.ts'
import { createDataPlane } from './link/data-plane.ts'
import { Downlink } from './link/downlink.ts'
import { createFaultReporter } from './link/faults.ts'
import { type ListenerSettings, listenerSettings } from './listener-settings.ts'
import { openJobs } from './queue/open-jobs.ts'
import { openMiddle } from './serving/open-middle.ts'

export interface Bridge {
  readonly mqttUrl: string
  readonly httpUrl: string
  readonly dataUrl: string
  readonly modelId: string
  /** SHA-256 of the public key of the TLS certificate: invitations and logins hold the bridge to it. */
  readonly pin: string | undefined
  /** Whether clients that connect now must prove their identity. */
  readonly auth: boolean
  /** Publishes the state `disconnected`, ends all HAT sessions, and closes everything. */
  close(): Promise<void>
}

const migrations = [birthsTable, ...fleetTables]
const heartbeatMs = 15_000
const dayMs = 86_400_000
const helloTimeoutMs = 10_000
/** Minimum interval between two publications of the retained state. */
const announceEveryMs = 1_000

/** What every part needs. Each part registers with `closers` how it is closed. */
interface Base {
  readonly config: BridgeConfig
  readonly clock: Clock
  readonly closers: Closers
  readonly logger: Logger
  readonly log: (component: string) => Logger
  readonly downlink: Downlink
  /** The retained state has changed. */
  readonly announce: { trigger(): void }
  readonly listeners: ListenerSettings
  readonly startedMs: number
}

/**
 * The composition root of the cloud side: builds the parts, owns start and stop.
 * @throws BrimError CONFIG_INVALID, BUNDLE_*, LISTEN_*, BROKER_UNREACHABLE, STORE_FAILED, RUNTIME_*
 */
export async function startBridge(settings: BridgeSettings, clock: Clock = systemClock): Promise<Bridge> {
  const config = readBridgeConfig(settings)
  const logger = createLogger(config.logLevel, { bridge: config.id }, config.log)
  const log = (component: string) => logger.child({ component })
  const closers = createClosers()
  try {
    const listeners = listenerSettings(config.limits, maxOpenFiles(), log('listen'))
    const downlink = new Downlink()
    const announce = debounce(() => downlink.publishState(), announceEveryMs, clock)
    closers.push(announce.stop)
    return await openBridge({
      config,
      clock,
      closers,
      logger,
      log,
      downlink,
      announce,
      listeners,
      startedMs: clock.nowMs(),
    })
  } catch (error) {
    await closers.closeAll()
    throw error
  }
}

async function openBridge(base: Base): Promise<Bridge> {
  const { config, closers, log, downlink } = base
  const { id, fleet, host } = config
  const stores = openStores(base)
  const work = openWork(base, stores)
  const access = openAccess(base, stores)
  const { grants, certificate } = access
  const broker = await openBroker({
    ...config,
    bridge: id,
    port: mqttPortOf(base, stores),
    connectionLimits: base.listeners.mqtt,
    certificate,
    gate: grants,
    ownToken: grants.ownToken,
    lastState: work.devices.lastState,
    onIdConflict: work.devices.onIdConflict,
    clock: base.clock,
    logger: log('broker'),
  })
  closers.push(broker.close)
  const cloud = await openServing(base, access)
  const http = await openHttp(base, { ...stores, ...work, ...access, ...cloud, broker })
  closers.push(cloud.plane.close)
  closers.push(() => cloud.sessions.shutdown({ code: 'LINK_LOST', message: `bridge ${id} is shutting down` }))

  // After all ports are bound: a second bridge started by mistake must not declare the first one's devices lost.
  const isEnrolled = (device: string) => stores.identityStore.device(device) !== undefined
  const accepts = (device: string) => !grants.authRequired || isEnrolled(device)
  work.devices.start(accepts)
  work.jobs.queue.start()
  const authority = `${urlHost(host)}:${http.port}`
  const dataUrl = config.dataUrl ?? `${certificate ? 'wss' : 'ws'}://${authority}${dataPath}`
  const control = await connectControl({
    url: broker.external
      ? broker.url
      : `${certificate ? 'mqtts' : 'mqtt'}://${urlHost(ownHost(host))}:${new URL(broker.url).port}`,
    isOwnBroker: !broker.external,
    password: broker.password ?? grants.ownToken,
    fleet,
    bridge: id,
    birth: stores.birth,
    describe: () => ({
      bridge: version,
      modelId: cloud.modelId,
      data: dataUrl,
      sessions: cloud.sessions.count,
      devices: work.devices.size,
      telemetryDeltas: true,
    }),
    accepts,
    ...work.devices.handlers,
    onJobEvent: work.jobs.queue.onJobEvent,
    clock: base.clock,
    logger: log('control'),
  })
  closers.push(control.close)
  downlink.attach(control)
  work.devices.watchHeartbeats(() => control.connected)
  const { modelId } = cloud
  base.logger.info({ birth: stores.birth, modelId, mqttUrl: broker.url, dataUrl, auth: grants.authRequired }, 'bridge ready')
  return {
    mqttUrl: broker.url,
    httpUrl: `${certificate ? 'https' : 'http'}://${authority}`,
    dataUrl,
    modelId,
    pin: certificate && pinOf(new X509Certificate(certificate.current.cert).publicKey),
    get auth() {
      return grants.authRequired
    },
    close: closers.closeAll,
  }
}

function openStores({ config, clock, closers, log }: Base) {
  closers.push(lockFolder(config.stateDir))
  const store = openDatabase(join(config.stateDir, 'bridge.sqlite'), migrations)
  closers.push(() => store.close())
  const identityStore = openIdentityStore(config.stateDir, config.limits)
  closers.push(() => identityStore.close())
  if (config.auditLog !== undefined) {
    const { id: bridge, auditLog: file } = config
    const auditExport = openAuditExport({ file, store: identityStore, bridge, clock, logger: log('identity') })
    closers.push(auditExport.close)
  }
  return { store, identityStore, birth: nextBirth(store) }
}
type Stores = ReturnType<typeof openStores>

/** The devices of the fleet and their jobs. */
function openWork({ config, clock, closers, logger, log, downlink, announce }: Base, { store, identityStore }: Stores) {
  const bridge = config.id
  const { publish } = downlink
  const { onUnreadable, onBaseless } = createFaultReporter({
    bridge,
    publish: (device, message) => publish(device, 'faults', message),
    clock,
    logger: log('control'),
  })
  const jobs = openJobs(config, { bridge, clock, wallMs: Date.now, publish, onUnreadable, logger: log('jobs') })
  closers.push(jobs.close)
  const devices = openFleet({
    ...config,
    store,
    bridge,
    identities: identityStore,
    jobs: jobs.store,
    publish: (device, message) => publish(device, 'commands', message),
    onUnreadable,
    onBaseless,
    onDeviceState: jobs.queue.onDeviceState,
    onGrowth: announce.trigger,
    onBrokerLost: jobs.queue.onBrokerLost,
    clock,
    logger,
  })
  closers.push(devices.close)
  return { jobs, devices }
}
type Work = ReturnType<typeof openWork>

/** Who may connect, and the certificate that all listeners show. */
function mqttPortOf({ config, logger }: Base, { identityStore }: Stores): number {
  if (config.mqttPort !== undefined) return config.mqttPort
  if (!config.tls) return mqttPorts.plain
  const earlier = identityStore.earlierTlsPort()
  if (earlier === undefined) return mqttPorts.tls
  logger.warn({ port: earlier }, 'MQTT over TLS stays on the port of earlier releases, where devices have enrolled: --mqtt-port')
  return earlier
}

function openAccess({ config, clock, closers, logger, log }: Base, { identityStore }: Stores) {
  const { id, host, tls } = config
  const authRequired = requiresAuth({ ...config, enrolled: identityStore.devices().length > 0 })
  const certificate = tls && openCertificate(tls, clock, log('tls'))
  if (certificate) closers.push(certificate.close)
  if (!isLoopback(host) && !certificate)
    logger.warn({ host }, 'no TLS: tokens and hidden states travel in plain text and can be read on the way')
  const grants = new Grants({ store: identityStore, bridge: id, authRequired, clock })
  return { grants, certificate }
}
type Access = ReturnType<typeof openAccess>

/** The middle submodel, the HAT sessions on it, and the data plane that they are reached by. */
async function openServing({ config, clock, closers, logger, log, announce }: Base, { grants }: Access) {
  const middle = await openMiddle(config)
  closers.push(middle.close)
  const served = serveMiddle(config, middle, { clock, logger, onCount: announce.trigger })
  closers.push(served.serving.close)
  const { modelId, dims } = middle.manifest
  const plane = createDataPlane({
    sessions: served.sessions,
    bridge: config.id,
    modelId,
    draftLimit: config.draftLimit,
    maxFrameBytes: maxFrameBytesOf(config.frameTokens, dims.hidden),
    gate: grants,
    heartbeatMs,
    helloTimeoutMs,
    clock,
    logger: log('link'),
  })
  return { ...served, modelId, plane }
}
type Serving = Awaited<ReturnType<typeof openServing>>

async function openHttp(base: Base, parts: Stores & Work & Access & Serving & { broker: ControlBroker }) {
  const { config, clock, closers, log, startedMs } = base
  const { id: bridge, fleet, host } = config
  const { identityStore, jobs, devices, grants, certificate, broker, serving, sessions, plane, steps, modelId } = parts
  const identities = createIdentities({
    store: identityStore,
    grants,
    bridge,
    fleet,
    keys: { validMs: config.deviceKeyDays * dayMs },
    failedProofsPerMinute: config.limits.failedProofsPerMinute,
    authRequiredOnceEnrolled: config.auth !== false,
    onAuthRequired() {
      broker.dropUnproven()
      for (const device of plane.dropUnproven()) serving.purge(device)
      // No device has proven who it is, the one that enrols included.
      devices.forgetExcept(() => false)
    },
    refusal: enrolmentRefusal(config),
    controlPlane: {
      mqttPort: Number(new URL(broker.url).port),
      mqttTls: certificate !== undefined,
      mqttUrl: broker.external ? broker.url : undefined,
    },
    onGrant: (device) => broker.admit(device),
    onGrantEnd(device) {
      broker.disconnect(device)
      plane.disconnect(device)
      serving.purge(device)
    },
    clock,
    logger: log('identity'),
  })
  closers.push(identities.close)
  const hookSecretFile = config.broker?.hookSecretFile
  const hookSecret = hookSecretFile === undefined ? undefined : readHookSecret(hookSecretFile)
  const quotas = new Quotas(identityStore, config.limits.keyRequestsPerMinute, clock, () => Date.now())
  const authorizer = createAuthorizer({
    gate: grants,
    store: identityStore,
    quotas,
    hookSecret,
    clock,
    logger: log('identity'),
  })
  closers.push(authorizer.close)
  const bundles = openServedBundles({ bundle: config.bundle, folder: config.bundles })
  const uptimeS = () => Math.round((clock.nowMs() - startedMs) / 1_000)
  const load = () => ({
    version,
    modelId,
    uptimeS: uptimeS(),
    sessions: sessions.count,
    kvBytes: serving.memory.usedBytes - serving.memory.cachedBytes,
  })
  const http = await startHttpServer({
    host,
    port: config.httpPort,
    routes: [
      bridgeRoutes({
        health: () => ({
          ...load(),
          keptKvBytes: serving.memory.cachedBytes,
          pipeline: config.pipeline,
          serving: serving.metrics,
          jobs: { dispatchMs: jobs.queue.dispatchMs },
        }),
        steps: () => steps.list(),
      }),
      jobRoutes(jobs.queue, jobs.store, { isKnown: devices.fleet.has, findBundle: bundles.find }),
      deviceRoutes({
        ...devices,
        remove(device, actor) {
          const open = jobs.store.openOf(device)
          for (const job of open) jobs.queue.cancel(job)
          identityStore.remove(actor, device)
          broker.clearState?.(device)
          devices.forget(device)
          return open.length
        },
        describe: () => ({ bridge, ...load(), kvBudgetBytes: config.kvBudgetBytes, jobs: jobs.store.counts() }),
        clock,
      }),
      bundleRoutes(bundles),
      adminRoutes({ store: identityStore, quotas, bridge, fleet }),
      identityRoutes(identities),
      ...(hookSecret === undefined ? [] : [brokerHookRoutes({ fleet, gate: grants })]),
    ],
    upgrades: { [dataPath]: plane.upgrade },
    certificate,
    authorizer,
    limits: base.listeners.http,
    eventStreamsPerClient: config.limits.eventStreamsPerClient,
    jsonValues: config.limits.httpJsonValues,
    clock,
    logger: log('http'),
  })
  closers.push(http.close)
  return http
}

/** Runs `action` once, `everyMs` after the first of several triggers. */
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
