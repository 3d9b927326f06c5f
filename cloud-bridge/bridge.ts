import { X509Certificate } from 'node:crypto'
import { join } from 'node:path'
import { type Clock, systemClock } from '../core/base/clock.ts'
import { createClosers } from '../core/base/closers.ts'
import { createLogger } from '../core/base/logger.ts'
import { isLoopback } from '../core/base/loopback.ts'
import { pinOf } from '../core/base/tls-pin.ts'
import { version } from '../core/base/version.ts'
import { bundlesPath } from '../core/protocol/jobs.ts'
import { dataPath } from '../core/protocol/messages.ts'
import { birthsTable, nextBirth } from '../core/store/births.ts'
import { lockFolder } from '../core/store/lock-folder.ts'
import { openDatabase } from '../core/store/open-database.ts'
import { adminPath, createAdminHttp, whoamiPath } from './api/admin.ts'
import { createBundlesHttp } from './api/bundles.ts'
import { devicesPath, fleetPath } from './api/fleet.ts'
import { jobsPath } from './api/jobs.ts'
import { readHookSecret } from './broker/broker-secrets.ts'
import { hookBodyBytes, hookRoutes } from './broker/hook.ts'
import { openBroker } from './broker/open-broker.ts'
import { type BridgeSettings, readBridgeConfig } from './config.ts'
import { fleetTables, openFleet } from './fleet/open-fleet.ts'
import { serveMiddle } from './hat/serve-middle.ts'
import { openCertificate } from './http/certificate.ts'
import { startHttpServer } from './http/http-server.ts'
import { ownHost, urlHost } from './http/listen.ts'
import { createCallers } from './identity/callers.ts'
import { requiresProof } from './identity/exposure.ts'
import { createIdentities } from './identity/identities.ts'
import { Quotas } from './identity/quotas.ts'
import { openIdentityStore } from './identity/store.ts'
import { type ControlLink, connectControl } from './link/control.ts'
import { createDataPlane } from './link/data-plane.ts'
import { createFaultReporter } from './link/faults.ts'
import { openJobs } from './queue/open-jobs.ts'
import { openMiddle } from './serving/open-middle.ts'

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

const migrations = [birthsTable, ...fleetTables]
/** The control plane carries small JSON; whoever sends more is mistaken. */
const maxPacketBytes = 256 * 1024
const heartbeatMs = 15_000
/** Of a broker's address that names none. */
const defaultMqttPort = 1883
const helloTimeoutMs = 10_000
/** Changes of what the retained state tells are published at most so often. */
const announceEveryMs = 1_000

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
    const onUnreadable = createFaultReporter({
      bridge: id,
      publish: (device, message) => control?.publish(device, 'faults', message),
      clock,
      logger: logger.child({ component: 'control' }),
    })
    const identityStore = openIdentityStore(config.stateDir)
    closers.push(() => identityStore.close())
    const jobs = openJobs(config, {
      bridge: id,
      clock,
      wallMs: Date.now,
      publish: (device, leaf, message) => control?.publish(device, leaf, message),
      onUnreadable,
      logger: logger.child({ component: 'jobs' }),
    })
    closers.push(jobs.close)
    const startedMs = clock.nowMs()
    const uptimeS = () => Math.round((clock.nowMs() - startedMs) / 1_000)
    const devices = openFleet({
      ...config,
      store,
      bridge: id,
      identities: identityStore,
      jobs: jobs.store,
      publish: (device, message) => control?.publish(device, 'commands', message),
      onUnreadable,
      onDeviceState: jobs.queue.onDeviceState,
      onBrokerLost: jobs.queue.onBrokerLost,
      describe: () => ({
        bridge: id,
        version,
        modelId,
        uptimeS: uptimeS(),
        sessions: sessions.count,
        kvBytes: serving.memory.usedBytes - serving.memory.cachedBytes,
        kvBudgetBytes: config.kvBudgetBytes,
        jobs: jobs.store.counts(),
      }),
      clock,
      logger,
    })
    closers.push(devices.close)
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
        plane.disconnect(device)
        serving.purge(device)
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
      lastSaid: devices.lastState,
      logger: logger.child({ component: 'broker' }),
    })
    closers.push(broker.close)

    const middle = await openMiddle(config)
    closers.push(middle.close)
    const { modelId } = middle.manifest
    const announce = debounce(() => control?.publishState(), announceEveryMs, clock)
    closers.push(announce.stop)
    const { serving, steps, sessions } = serveMiddle(config, middle, { clock, logger, onCount: announce.trigger })
    closers.push(serving.close)
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
    const quotas = new Quotas(identityStore, clock, () => Date.now())
    const callers = createCallers({ gate, store: identityStore, quotas, clock, logger: logger.child({ component: 'identity' }) })
    closers.push(callers.close)
    const { admin, whoami } = createAdminHttp({ store: identityStore, quotas, bridge: id, fleet })
    const http = await startHttpServer({
      host,
      port: config.httpPort,
      routes: {
        '/health': () => ({
          ok: true,
          version,
          modelId,
          sessions: sessions.count,
          kvBytes: serving.memory.usedBytes - serving.memory.cachedBytes,
          keptKvBytes: serving.memory.cachedBytes,
          uptimeS: uptimeS(),
          pipeline: config.pipeline,
          serving: serving.metrics,
          jobs: { dispatchMs: jobs.queue.dispatchMs },
        }),
        '/v1/steps': () => ({ steps: steps.list() }),
      },
      open: ['/health'],
      certificate,
      callers,
      posts: { ...identities.posts, ...hooks },
      bodyLimits: hookBodyBytes,
      handlers: {
        [jobsPath]: jobs.http,
        [devicesPath]: devices.http,
        [fleetPath]: devices.http,
        [bundlesPath]: createBundlesHttp({ bundle: config.bundle, folder: config.bundles }),
        [adminPath]: admin,
        [whoamiPath]: whoami,
      },
      upgrades: { [dataPath]: plane.upgrade },
      logger: logger.child({ component: 'http' }),
    })
    closers.push(http.close)
    closers.push(jobs.http.close)
    closers.push(devices.http.close)
    closers.push(plane.close)
    closers.push(() => sessions.shutdown({ code: 'LINK_LOST', message: `bridge ${id} is shutting down` }))
    // Not before all ports are ours: a second bridge started by mistake must not declare the first one's devices lost.
    devices.start()
    jobs.queue.start()
    const authority = `${urlHost(host)}:${http.port}`
    const dataUrl = config.dataUrl ?? `${certificate ? 'wss' : 'ws'}://${authority}${dataPath}`
    control = await connectControl({
      url: broker.external
        ? broker.url
        : `${certificate ? 'mqtts' : 'mqtt'}://${urlHost(ownHost(host))}:${new URL(broker.url).port}`,
      isOwnBroker: !broker.external,
      password: broker.password ?? identities.ownToken,
      fleet,
      bridge: id,
      birth,
      describe: () => ({ bridge: version, modelId, data: dataUrl, sessions: sessions.count }),
      ...devices.handlers,
      onJobEvent: jobs.queue.onJobEvent,
      logger: logger.child({ component: 'control' }),
    })
    closers.push(control.close)
    const joined = control
    devices.watchHeartbeats(() => joined.connected)
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
