import { openEmbeddings } from '../core/answer/embeddings/open-embeddings.ts'
import type { AnswerMeter } from '../core/answer/endpoint/meter.ts'
import { type Clock, systemClock } from '../core/kit/base/clock.ts'
import { createClosers } from '../core/kit/base/closers.ts'
import type { BrimError } from '../core/kit/base/errors.ts'
import type { Logger } from '../core/kit/base/logger.ts'
import type { DeviceComputing } from '../core/wire/protocol/computing.ts'
import { type AgentSettings, readAgentConfig } from './config.ts'
import { type Host, openHost } from './device/host.ts'
import { openBridgeCredentials } from './identity/identities.ts'
import { Answering } from './parts/answering.ts'
import { openApi } from './parts/api.ts'
import { openBase } from './parts/base.ts'
import { searchBridges } from './parts/bridge-search.ts'
import { openBudget } from './parts/budget.ts'
import { type Changes, openChanges } from './parts/changes.ts'
import { openDispatch } from './parts/dispatch.ts'
import { openDownloads } from './parts/downloads.ts'
import { healthOf } from './parts/health.ts'
import { openLinks } from './parts/links.ts'
import { openMetrics } from './parts/metrics.ts'
import { openModels, openSmallModels } from './parts/models.ts'
import { openMonitor } from './parts/monitor.ts'
import { openRemote } from './parts/remote.ts'
import { openReporting, openSpool } from './parts/reporting.ts'
import { openState } from './parts/state.ts'
import { openDeviceWork } from './parts/work.ts'
import type { RestartKind } from './trial/change.ts'
import type { AgentVariant } from './variant.ts'

export type { AgentVariant, Changes }

export interface Agent {
  /** http://127.0.0.1:port */
  readonly apiUrl: string
  /** Undefined: the agent waits for the job that installs its first bundle. */
  readonly modelId: string | undefined
  /** What computes its models. */
  readonly computing: DeviceComputing | undefined
  /** Answers so far. */
  readonly answers: Pick<AnswerMeter, 'active' | 'totals'>
  /** Name of the small model that answers can fall back to. */
  readonly slm: string | undefined
  readonly logger: Logger
  /** Names of loops that make no progress, although some is due. */
  readonly stalled: readonly string[]
  /** One line: what the agent does. */
  readonly status: string
  /** Resolves when a bridge has refused this device, because another one uses its id. */
  readonly idTaken: Promise<BrimError>
  /** Resolves when a job has changed what only another start of the agent can change, or has not been healthy with it. */
  readonly restart: Promise<RestartKind>
  /**
   * Publishes the state `draining`, refuses new requests and begins no job.
   * @returns resolves when no answer and no job is in progress
   */
  drain(): Promise<void>
  /** Stops answers in progress, publishes `disconnected`, frees and closes everything. */
  close(): Promise<void>
}

/**
 * The composition root of the device's side: builds the parts, owns start and stop. The agent starts even if no bridge can be
 * reached, and without a bundle.
 * @param variant of a benchmark
 * @param changes what jobs may change that needs another start; absent: nothing
 * @throws BrimError CONFIG_INVALID, BUNDLE_*, TOKENIZER_INVALID, CHAT_TEMPLATE_INVALID, LISTEN_*, STORE_FAILED, RUNTIME_*, OUT_OF_MEMORY
 */
export async function startAgent(
  settings: AgentSettings,
  clock: Clock = systemClock,
  host: Host = openHost(),
  variant: AgentVariant = {},
  changes: Changes = {},
): Promise<Agent> {
  const closers = createClosers()
  try {
    const config = readAgentConfig(settings)
    const state = await openState(config.stateDir, closers)
    const { base, logs } = await openBase(config, clock, closers, state.birth)
    const spool = openSpool(base, state)
    const { logger } = base
    const identities = openBridgeCredentials(config, clock, logger.child({ component: 'identity' }))
    closers.push(identities.close)
    const remote = openRemote(base, state, logs.outbox)
    const models = await openModels(base, state, variant)
    const smallModels = await openSmallModels(base, state, models)
    const budget = openBudget(base, models, host)
    const links = openLinks(base, state, identities, models, variant)
    logs.outbox.start(links, spool)
    const answering = new Answering(base, models, links, variant)
    const dispatch = openDispatch(base, { store: state.store, identities }, models, links, answering, budget.budget)
    const downloads = openDownloads(base, identities, links)
    const work = openDeviceWork(base, state, models, smallModels, answering, downloads)
    const changing = openChanges(base, models, links, answering, downloads, changes)
    const handlers = () => ({ ...work.handlers(), ...changing.handlers })
    const monitor = openMonitor({ models, smallModels, answering, work, budget, errors: logs.errors }, spool)
    const reporter = openReporting(base, state, models, links, monitor, spool)
    const metrics = openMetrics(base, models, links, monitor)
    const health = healthOf(config.id, { metrics, models, answering, dispatch, links, work, remote, monitor })
    await state.bundles.removeUnused(models.folders, Date.now())
    await models.updateSmallModels()
    const embeddings = await openEmbeddings({ ...config, verified: state.verified }, closers)
    const api = await openApi(base, answering, dispatch, budget, health, embeddings)
    closers.push(work.jobs.close)
    // Only now that the port is bound: a second agent started by mistake must not replace the first one at the bridge.
    work.jobs.start(handlers())
    models.onChange(() => {
      answering.update()
      work.jobs.replaceHandlers(handlers())
      links.setModel(models.modelId)
      smallModels.update()
    })
    links.start((url) => [work.jobs.service(url), remote.service(url)])
    searchBridges(base, identities, links)
    reporter.start()
    changing.start()
    smallModels.start()
    closers.push(() => reporter.close())
    const { drafter } = config.draft
    const { modelId, computing } = models
    const slm = answering.slm?.model.name
    logger.info({ birth: state.birth, modelId, computing, apiUrl: api.url, slm, drafter }, 'agent ready')
    return {
      apiUrl: api.url,
      get modelId() {
        return models.modelId
      },
      get computing() {
        return models.computing
      },
      slm,
      answers: answering.meter,
      logger,
      get stalled() {
        return base.progress.stalled
      },
      get status() {
        const { bridge, bridgeId } = links.status
        const without = bridge === 'refused' ? 'its bridge is not trusted' : 'no bridge responds'
        const link = bridge === 'connected' ? `connected to ${bridgeId}` : without
        return `${remote.isDraining ? 'draining' : 'ready'}, ${link}, ${answering.meter.active} answers in progress`
      },
      idTaken: links.idTaken,
      restart: changing.restart,
      async drain() {
        logger.info({ answers: answering.meter.active, jobs: work.jobs.counts.running }, 'agent draining')
        remote.stop()
        await Promise.all([api.drain(), work.jobs.drain()])
        logger.info('agent drained')
      },
      close: closers.closeAll,
    }
  } catch (error) {
    await closers.closeAll()
    throw error
  }
}
