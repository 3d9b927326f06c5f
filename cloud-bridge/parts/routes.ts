import { join } from 'node:path'
import { KeptResponses } from '../../core/answer/api/kept-responses.ts'
import type { Embeddings } from '../../core/answer/embeddings/embeddings.ts'
import { nextSeed } from '../../core/kit/base/next-seed.ts'
import { bridgeProblemsOf } from '../../core/policy/fleet/bridge-problems.ts'
import { adminRoutes } from '../api/admin.ts'
import { answerRoutes } from '../api/answers.ts'
import { bridgeRoutes } from '../api/bridge.ts'
import { brokerHookRoutes } from '../api/broker-hooks.ts'
import { browserLoginRoutes } from '../api/browser-logins.ts'
import { bundleRoutes, releaseRoutes } from '../api/bundles.ts'
import { deviceRoutes } from '../api/devices.ts'
import { identityRoutes } from '../api/identity.ts'
import { jobRoutes } from '../api/jobs.ts'
import { requireBundle, requireRelease, requireServed } from '../api/offered.ts'
import { pageRoutes } from '../api/page.ts'
import { rolloutRoutes } from '../api/rollouts.ts'
import { whatIfRoutes } from '../api/what-if.ts'
import type { ControlBroker } from '../broker/control-broker.ts'
import { openBundleStore } from '../bundles/bundle-store.ts'
import type { Routes } from '../http/router.ts'
import type { Identities } from '../identity/identities.ts'
import type { Rollouts } from '../rollout/rollouts.ts'
import { fleetSituation } from '../what-if/fleet-situation.ts'
import { WhatIf } from '../what-if/what-if.ts'
import type { Access } from './access.ts'
import type { Authorization } from './authorizer.ts'
import type { Base } from './base.ts'
import { type PrimaryNode, sessionsOf } from './primary-node.ts'
import type { OpenServing } from './serving.ts'
import type { Stores } from './stores.ts'
import type { FleetWork } from './work.ts'

/** Answers, and the state of what makes them. */
export function servingRoutes(
  { config, clock, closers, logger, metrics, tracer }: Base,
  { jobs }: FleetWork,
  { serving, steps, answers, load }: OpenServing,
  embeddings: Embeddings,
  node: PrimaryNode | undefined,
  onEnd: () => void,
): readonly Routes[] {
  const { models, resumable, meter, inProgress } = answers
  const kept = new KeptResponses(clock)
  closers.push(() => kept.close())
  return [
    bridgeRoutes({
      health: () => ({
        ...load(),
        keptKvBytes: serving.memory.cachedBytes,
        pipeline: 1,
        serving: serving.metrics,
        jobs: { dispatchMs: jobs.queue.dispatchMs },
      }),
      steps: () => steps.list(),
      served: answers.now,
      metrics: metrics.text,
      node,
      onEnd,
      id: config.id,
      clock,
    }),
    answerRoutes({
      served: { models, nextSeed, requestLimits: config.limits },
      embeddings,
      resumable,
      kept,
      meter,
      inProgress,
      maxBodyBytes: config.limits.apiBodyBytes,
      tracer,
      clock,
      logger: logger.child({ component: 'api' }),
    }),
  ]
}

/** Devices, jobs, rollouts and bundles, and what the simulator says of them all. */
export function fleetRoutes(
  { config, clock, closers, metrics }: Base,
  { identityStore }: Stores,
  { jobs, devices, expansions }: FleetWork,
  rollouts: Rollouts,
  broker: ControlBroker,
  { modelIds, computing, answers, load, steps }: OpenServing,
  node: PrimaryNode | undefined,
): readonly Routes[] {
  const whatIf = new WhatIf()
  closers.push(() => whatIf.close())
  const bundles = openBundleStore({
    own: config.servedBundles,
    folder: config.bundles ?? join(config.stateDir, 'bundles'),
    uploadBytes: config.limits.uploadBytes,
    wallMs: Date.now,
  })
  return [
    jobRoutes(jobs.queue, jobs.store, { isKnown: devices.fleet.has, findBundle: bundles.served.find }),
    deviceRoutes({
      ...devices,
      smallModelsOf: expansions.profiles.describe,
      remove(device, actor) {
        const open = jobs.store.openOf(device)
        for (const job of open) jobs.queue.cancel(job)
        identityStore.remove(actor, device)
        broker.clearState?.(device)
        devices.forget(device)
        expansions.profiles.forget(device)
        return open.length
      },
      describe: () => ({
        bridge: config.id,
        ...load(),
        sessions: sessionsOf(node, load().sessions),
        kvBudgetBytes: config.kvBudgetBytes,
        jobs: jobs.store.counts(),
        database: node?.describe() ?? null,
        problems: bridgeProblemsOf({
          storageFailure: jobs.storage.failure,
          databaseFailure: node?.describe().failure ?? undefined,
          damagedJobs: jobs.store.countDamaged(),
          computing: computing(),
          upstreamProblems: answers.upstreams().flatMap(({ problem }) => problem ?? []),
        }),
      }),
      clock,
    }),
    rolloutRoutes({
      rollouts,
      fleet: devices.fleet,
      async requireBundle(wanted) {
        await requireBundle(bundles.served.find, wanted)
        await requireServed(bundles.served.find, modelIds, wanted)
      },
      requireRelease: (wanted) => requireRelease(() => bundles.releases.list(), wanted),
    }),
    bundleRoutes(bundles),
    releaseRoutes(bundles),
    whatIfRoutes(whatIf, () => {
      const [model] = answers.models
      return fleetSituation({
        devices: devices.fleet.devices(),
        sizes: metrics.sizes.list(),
        steps: steps.list(),
        model: model?.name,
      })
    }),
  ]
}

/** Keys, logins, enrolment, the questions of an external broker, and the page. */
export function accessRoutes(
  { config }: Base,
  { identityStore }: Stores,
  { grants, tlsPins }: Access,
  { quotas, logins, hookSecret, authorizer }: Authorization,
  identities: Identities,
): readonly Routes[] {
  const { id: bridge, fleet } = config
  return [
    adminRoutes({ store: identityStore, quotas, bridge, fleet, tlsPins }),
    browserLoginRoutes(logins, identityStore),
    identityRoutes(identities, grants),
    pageRoutes(() => authorizer.authRequired),
    ...(hookSecret === undefined ? [] : [brokerHookRoutes({ fleet, gate: grants })]),
  ]
}
