import { createRolloutStore } from '../rollout/rollout-store.ts'
import { createRollouts, type Rollouts } from '../rollout/rollouts.ts'
import type { Base } from './base.ts'
import type { Stores } from './stores.ts'
import type { FleetWork } from './work.ts'

/** The rollouts, on the queue's jobs; what they decide by themselves is in the audit log as well. */
export function openRollouts(
  { config, clock, closers, logger }: Base,
  { store, identityStore }: Stores,
  { jobs, presence, devices }: FleetWork,
): Rollouts {
  const rollouts = createRollouts({
    store: createRolloutStore(store),
    jobs: jobs.store,
    queue: jobs.queue,
    isKnown: devices.fleet.has,
    presence,
    lastState: devices.lastState,
    soakMs: config.limits.rolloutSoakS * 1_000,
    wallMs: jobs.wallMs,
    onDecided({ id, state, reason, devices: detail }) {
      identityStore.record([
        { actor: 'rollout', action: `rollout.${state}`, subject: id, outcome: 'ok', detail: { reason, ...detail } },
      ])
    },
    clock,
    logger: logger.child({ component: 'rollout' }),
  })
  closers.push(rollouts.close)
  return rollouts
}
