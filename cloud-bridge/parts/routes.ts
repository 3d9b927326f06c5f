import { join } from 'node:path'
import { nextSeed } from '../../core/base/next-seed.ts'
import { version } from '../../core/base/version.ts'
import { bridgeProblemsOf } from '../../core/policy/fleet/bridge-problems.ts'
import { adminRoutes } from '../api/admin.ts'
import { answerRoutes } from '../api/answers.ts'
import { bridgeRoutes } from '../api/bridge.ts'
import { brokerHookRoutes } from '../api/broker-hooks.ts'
import { bundleRoutes, releaseRoutes } from '../api/bundles.ts'
import { deviceRoutes } from '../api/devices.ts'
import { identityRoutes } from '../api/identity.ts'
import { jobRoutes } from '../api/jobs.ts'
import { metricsRoutes } from '../api/metrics.ts'
import { requireBundle, requireRelease, requireServed } from '../api/offered.ts'
import { rolloutRoutes } from '../api/rollouts.ts'
import type { ControlBroker } from '../broker/control-broker.ts'
import { openBundleStore } from '../bundles/bundle-store.ts'
import type { Routes } from '../http/router.ts'
import type { Access } from './access.ts'
import type { OpenAuthorizer } from './authorizer.ts'
import type { Base } from './base.ts'
import type { OpenIdentities } from './identities.ts'
import type { OpenRollouts } from './rollouts.ts'
import type { OpenServing } from './serving.ts'
import type { Stores } from './stores.ts'
import type { Work } from './work.ts'

export type RouteParts = Stores &
  Work &
  Access &
  OpenServing &
  OpenAuthorizer & { readonly broker: ControlBroker; readonly identities: OpenIdentities; readonly rollouts: OpenRollouts }

/** Every operation that the bridge serves, on the parts that carry it out. */
export function routesOf({ config, clock, log, startedMs, metrics }: Base, parts: RouteParts): readonly Routes[] {
  const { id: bridge, fleet } = config
  const { identityStore, jobs, devices, expansions, grants, broker, identities, quotas, hookSecret } = parts
  const { serving, sessions, steps, modelIds, models, resumable, meter, inProgress } = parts
  const bundles = openBundleStore({
    own: config.servedBundles,
    folder: config.bundles ?? join(config.stateDir, 'bundles'),
    uploadBytes: config.limits.uploadBytes,
    wallMs: Date.now,
  })
  const uptimeS = () => Math.round((clock.nowMs() - startedMs) / 1_000)
  const problems = () => bridgeProblemsOf({ storageFailure: jobs.storage.failure, damagedJobs: jobs.store.countDamaged() })
  const load = () => ({
    version,
    modelId: modelIds[0] ?? null,
    modelIds,
    uptimeS: uptimeS(),
    sessions: sessions.count,
    kvBytes: serving.memory.usedBytes - serving.memory.cachedBytes,
  })
  metrics.collect({
    version,
    modelIds,
    sessions: () => sessions.count,
    kv: () => serving.memory,
    slowKv: () => serving.slow,
    transfers: serving.transfers,
    serving: serving.metrics,
    devices: devices.counts,
    jobs: jobs.store.counts,
    rollouts: parts.rollouts.counts,
    broker: broker.counts,
  })
  return [
    metricsRoutes(metrics.text),
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
    answerRoutes({
      served: { models, nextSeed, requestLimits: config.limits },
      resumable,
      meter,
      inProgress,
      maxBodyBytes: config.limits.apiBodyBytes,
      clock,
      logger: log('api'),
    }),
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
        bridge,
        ...load(),
        kvBudgetBytes: config.kvBudgetBytes,
        jobs: jobs.store.counts(),
        problems: problems(),
      }),
      clock,
    }),
    rolloutRoutes({
      rollouts: parts.rollouts,
      fleet: devices.fleet,
      async requireBundle(wanted) {
        await requireBundle(bundles.served.find, wanted)
        await requireServed(bundles.served.find, modelIds, wanted)
      },
      requireRelease: (wanted) => requireRelease(() => bundles.releases.list(), wanted),
    }),
    bundleRoutes(bundles),
    releaseRoutes(bundles),
    adminRoutes({ store: identityStore, quotas, bridge, fleet, tlsPins: parts.tlsPins }),
    identityRoutes(identities),
    ...(hookSecret === undefined ? [] : [brokerHookRoutes({ fleet, gate: grants })]),
  ]
}
