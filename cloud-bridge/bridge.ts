import { X509Certificate } from 'node:crypto'
import { openEmbeddings } from '../core/answer/embeddings/open-embeddings.ts'
import { type Clock, systemClock } from '../core/kit/base/clock.ts'
import { createClosers } from '../core/kit/base/closers.ts'
import { terminated } from '../core/kit/base/termination.ts'
import { pinOf } from '../core/kit/base/tls-pin.ts'
import { tryOrLog } from '../core/kit/base/try-or-log.ts'
import { release, version } from '../core/kit/base/version.ts'
import { urlHost } from '../core/kit/listen/listen.ts'
import { VerifiedBundles } from '../core/model/bundle/verified-bundles.ts'
import { type BridgeState, dataPath, noModelId } from '../core/wire/protocol/messages.ts'
import { mqttPath, webSocketBroker } from '../core/wire/protocol/mqtt-url.ts'
import { type BridgeSettings, readBridgeConfig } from './config.ts'
import type { Certificate } from './http/certificate.ts'
import { forgetAddress, writeAddress } from './identity/local-access.ts'
import { announceBridge } from './link/announce-bridge.ts'
import { connectControl } from './link/control.ts'
import { openAccess } from './parts/access.ts'
import { openAuthorizer } from './parts/authorizer.ts'
import { type Base, openBase } from './parts/base.ts'
import { openControlBroker } from './parts/broker.ts'
import { openHome } from './parts/home.ts'
import { openHttp } from './parts/http.ts'
import { openIdentities } from './parts/identities.ts'
import { collectMetrics } from './parts/metrics.ts'
import { openMiddle } from './parts/middle.ts'
import { openNetwork } from './parts/network.ts'
import { type PrimaryNode, sessionsOf } from './parts/primary-node.ts'
import { openRollouts } from './parts/rollouts.ts'
import { accessRoutes, fleetRoutes, servingRoutes } from './parts/routes.ts'
import { openServing } from './parts/serving.ts'
import { openStores } from './parts/stores.ts'
import { openFleetWork } from './parts/work.ts'
import type { Bridge } from './running-bridge.ts'
import type { BridgeVariant } from './variant.ts'

export type { Bridge, BridgeVariant }

/**
 * The composition root of the cloud side: builds the parts, owns start and stop.
 * @param variant of a benchmark
 * @throws BrimError CONFIG_INVALID, BUNDLE_*, LISTEN_*, BROKER_UNREACHABLE, STORE_FAILED, RUNTIME_*
 */
export async function startBridge(
  settings: BridgeSettings,
  clock: Clock = systemClock,
  variant: BridgeVariant = {},
): Promise<Bridge> {
  const config = readBridgeConfig(settings)
  if (config.database) {
    const { startNode } = await import('./replica/node.ts')
    return startNode(config, clock, variant, (base, node) => openBridge(base, variant, node))
  }
  const closers = createClosers()
  try {
    return await openBridge(await openBase(config, clock, closers), variant)
  } catch (error) {
    await closers.closeAll()
    throw error
  }
}

/** @param node of a bridge with --database */
async function openBridge(base: Base, variant: BridgeVariant, node?: PrimaryNode): Promise<Bridge> {
  const { config, closers, logger } = base
  const { id, fleet, host } = config
  const network = openNetwork(base, node)
  const stores = openStores(base)
  // The number of this start, with which it publishes its state.
  await node?.stored()
  const work = openFleetWork(base, stores, network, variant)
  const rollouts = openRollouts(base, stores, work)
  const access = openAccess(base, stores)
  const { grants, certificate } = access
  const broker = await openControlBroker(base, network, stores, work, access)
  node?.links.proveBy(grants, stores.identityStore)
  const middle = node?.links.middle ?? (await openMiddle(base, grants, variant))
  const cloud = await openServing(base, middle, network, work, variant)
  const identities = openIdentities(base, stores, work, access, broker, cloud)
  const authorization = openAuthorizer(base, network, stores, access, cloud)
  collectMetrics(base, cloud, work, rollouts, broker, node)
  const verified = new VerifiedBundles(config.stateDir)
  const embeddings = await openEmbeddings({ ...config, verified }, closers)
  const ending = new AbortController()
  const onEnd = () => {
    if (ending.signal.aborted) return
    logger.warn('this bridge ends, so that its databases can be moved: start it again with --database')
    ending.abort(terminated)
  }
  const routes = [
    ...servingRoutes(base, work, cloud, embeddings, node, onEnd),
    ...fleetRoutes(base, stores, work, rollouts, broker, cloud, node),
    ...accessRoutes(base, stores, access, authorization, identities),
  ]
  const upgrades = {
    [dataPath]: node?.links.upgrade ?? middle.plane.upgrade,
    ...(broker.upgrade ? { [mqttPath]: broker.upgrade } : {}),
  }
  const http = await openHttp(base, network, access, authorization.authorizer, routes, upgrades)
  if (!node) closers.push(middle.close)

  // After all ports are bound: a second bridge started by mistake must not declare the first one's devices lost.
  const isEnrolled = (device: string) => stores.identityStore.device(device) !== undefined
  const accepts = (device: string) => !grants.authRequired || isEnrolled(device)
  work.devices.start(accepts)
  work.jobs.queue.start()
  rollouts.start()
  const authority = `${urlHost(host)}:${http.port}`
  const httpUrl = `${certificate ? 'https' : 'http'}://${authority}`
  const mqttUrl = broker.url ?? webSocketBroker(httpUrl)
  const dataUrl = config.dataUrl ?? `${certificate ? 'wss' : 'ws'}://${authority}${dataPath}`
  showAddress(base, httpUrl, certificate)
  if (config.announce) await announceInNetwork(base, http.port, certificate)
  const control = await connectControl({
    url: mqttUrl,
    openStream: broker.openStream,
    login: broker.login ?? { password: grants.ownToken },
    fleet,
    bridge: id,
    birth: stores.birth,
    describe: () => ({
      bridge: version,
      ...announcedModels(cloud.modelIds),
      data: dataUrl,
      sessions: sessionsOf(node, cloud.sessions.count),
      devices: work.devices.size,
      telemetryDeltas: config.telemetryDeltas,
      answerTtftMs: cloud.answers.starts.wire,
      answerMsPerToken: cloud.answers.starts.msPerToken,
    }),
    accepts,
    ...work.devices.handlers,
    onJobEvent: work.jobs.queue.onJobEvent,
    onNewerBirth: node?.onNewerPrimary,
    home: openHome(base, stores, network, work),
    progress: base.progress,
    clock: base.clock,
    logger: logger.child({ component: 'control' }),
  })
  closers.push(control.close)
  network.downlink.attach(control)
  work.devices.watchHeartbeats(() => control.connected)
  const { modelIds, sessions } = cloud
  const computing = cloud.computing()
  const { inProgress } = cloud.answers
  let isDraining = false
  logger.info({ birth: stores.birth, modelIds, computing, mqttUrl, dataUrl, auth: grants.authRequired }, 'bridge ready')
  return {
    mqttUrl,
    httpUrl,
    dataUrl,
    modelIds,
    computing,
    pin: certificate && pinIn(certificate),
    get auth() {
      return grants.authRequired
    },
    logger,
    ending: ending.signal,
    wallMs: work.jobs.wallMs,
    get stalled() {
      return base.progress.stalled
    },
    get status() {
      const { ready, draining } = work.devices.counts()
      return `${isDraining ? 'draining' : 'ready'}, ${ready + draining} devices connected, ${sessions.count} sessions, ${inProgress.count} answers in progress`
    },
    async drain() {
      logger.info({ sessions: sessions.count, answers: inProgress.count }, 'bridge draining')
      isDraining = true
      const moved = node?.links.untilMoved()
      if (!moved) control.drain()
      await Promise.all([moved ?? sessions.drain(), inProgress.drain()])
      logger.info('bridge drained')
    },
    close: closers.closeAll,
  }
}

/** Agents before 0.3 read only `modelId`. Where it is absent, they open sessions with the model that they have. */
function announcedModels(modelIds: readonly string[]): Pick<BridgeState, 'modelId' | 'modelIds'> {
  return modelIds.length > 1 ? { modelIds } : { modelId: modelIds[0] ?? noModelId }
}

const pinIn = ({ current }: Certificate) => pinOf(new X509Certificate(current.cert).publicKey)

/** Tells commands on this machine where the bridge listens, while it does. */
function showAddress({ config, closers, logger }: Base, httpUrl: string, certificate: Certificate | undefined): void {
  const url = httpUrl.replace(/0\.0\.0\.0|\[::\]/, '127.0.0.1')
  const write = () =>
    tryOrLog(logger, 'address not written: commands on this machine need --bridge-url', () =>
      writeAddress(config.stateDir, { url, ...(certificate ? { pin: pinIn(certificate) } : {}) }),
    )
  write()
  certificate?.onChange(write)
  closers.push(() => forgetAddress(config.stateDir))
}

/** Multicast DNS, for devices that know no bridge. */
async function announceInNetwork(
  { config, clock, closers, logger }: Base,
  port: number,
  certificate: Certificate | undefined,
): Promise<void> {
  const { id, fleet, host } = config
  const announced = await announceBridge({
    port,
    describe: () => ({ id, fleet, version: release, path: '/', ...(certificate && { pin: pinIn(certificate) }) }),
    at: { address: host === '0.0.0.0' ? undefined : host },
    clock,
    logger: logger.child({ component: 'mdns' }),
  })
  certificate?.onChange(announced.update)
  closers.push(announced.close)
}
