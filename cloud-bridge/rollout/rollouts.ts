import { isoOf } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { oncePerTurn } from '../../core/kit/base/once-per-turn.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import { endedDevices, isOpen, newRollout, type RolloutEvent } from '../../core/policy/rollout/rollout.ts'
import { rateOf } from '../../core/policy/rollout/start-rate.ts'
import type { Rollout, RolloutDevice, RolloutSubmission } from '../../core/wire/protocol/http/rollouts.ts'
import type { PresenceFeed } from '../presence/presence-feed.ts'
import { OpenRollout, type RolloutParts } from './open-rollout.ts'
import { type RolloutDeviceState, type StoredRollout, type StoredRolloutDevice, storedTermsOf } from './rollout-store.ts'

/** Interval of the starts. */
const tickMs = 1_000

export interface RolloutsOptions extends RolloutParts {
  /** A rollout has paused, was aborted or has ended by itself. */
  readonly onDecided: (rollout: Rollout) => void
  readonly presence: PresenceFeed
  readonly logger: Logger
}

/** What operators may do with a rollout. */
export type RolloutCommand = 'pause' | 'resume' | 'abort'

/** The rollouts of a bridge, those that have ended too. */
export interface Rollouts {
  /** Goes on with the rollouts that had not ended when the bridge stopped. */
  start(): void
  /** @param devices in the order in which they start @throws BrimError REQUEST_INVALID */
  create(submission: RolloutSubmission, devices: readonly string[], createdBy: string): Rollout
  /** @returns the rollout, and whether the command changed it; undefined: there is no such rollout */
  command(id: string, command: RolloutCommand, by: string): { rollout: Rollout; changed: boolean } | undefined
  find(id: string): Rollout | undefined
  /** The newest first. */
  list(limit: number): Rollout[]
  /** @param from place of the first */
  devices(id: string, from: number, state: RolloutDeviceState | undefined, limit: number): RolloutDevice[]
  /** The devices that failed last. */
  failures(id: string, limit: number): RolloutDevice[]
  /** Devices of the rollouts that have not ended, by their state there. */
  counts(): Record<string, number>
  close(): Promise<void>
}

export function createRollouts(options: RolloutsOptions): Rollouts {
  const { store, presence, wallMs, onDecided, clock, logger } = options
  const open = new Map<string, OpenRollout>()
  let isClosed = false
  let stopTicking: (() => Promise<void>) | undefined

  /** Everything that happened in one turn of the event loop is one commit. */
  const settleSoon = oncePerTurn(() => {
    if (!isClosed) forEach((one) => one.settle())
  })

  function forEach(work: (one: OpenRollout) => void): void {
    for (const one of [...open.values()]) {
      const { id, rollout } = one.stored
      tryOrLog(logger, 'rollout not stored', () => work(one), { rollout: id })
      onChanged(one, rollout.state)
    }
  }

  function onChanged(one: OpenRollout, before: StoredRollout['rollout']['state'], isByHand = false): void {
    const described = describe(one.stored)
    const { id, state, reason, devices } = described
    if (state !== before) {
      logger[state === 'aborted' ? 'warn' : 'info']({ rollout: id, state, reason, devices }, 'rollout changed')
      if (!isByHand) onDecided(described)
    }
    if (!one.hasEnded) return
    one.close()
    open.delete(id)
  }

  const storedOf = (id: string): StoredRollout | undefined => open.get(id)?.stored ?? store.find(id)

  function openRollout(stored: StoredRollout): OpenRollout {
    const one = new OpenRollout(options, stored, settleSoon)
    open.set(stored.id, one)
    return one
  }

  const unsubscribe = presence.subscribe((event) => {
    if (event.kind !== 'state') return
    const { device, state } = event
    if ([...open.values()].some((one) => one.watches(device))) forEach((one) => one.onDeviceState(device, state))
  })

  return {
    start() {
      for (const stored of store.open(wallMs())) openRollout(stored)
      stopTicking ??= repeatEvery(clock, tickMs, () => forEach((one) => one.tick()))
    },
    create(submission, devices, createdBy) {
      for (const device of devices) {
        const other = store.openOf(device, submission.kind)
        if (other !== undefined) throw inAnother(device, other, submission.kind)
      }
      const rollout = newRollout(storedTermsOf(submission.pace), devices.length)
      const id = store.transaction(() => store.add(submission, rollout, devices, createdBy, wallMs()))
      logger.info({ rollout: id, kind: submission.kind, devices: devices.length, by: createdBy }, 'rollout created')
      const one = openRollout(store.find(id)!)
      // The next tick starts what could not be started now.
      tryOrLog(logger, 'rollout not started', () => one.tick(), { rollout: id })
      return describe(one.stored)
    },
    command(id, command, by) {
      const stored = storedOf(id)
      const one = open.get(id)
      if (!stored || !one) return stored && { rollout: describe(stored), changed: false }
      const changed = one.apply(eventOf(command, by))
      if (command === 'resume') tryOrLog(logger, 'rollout not started', () => one.tick(), { rollout: id })
      // The cancellation of a job is known at once.
      tryOrLog(logger, 'rollout not stored', () => one.settle(), { rollout: id })
      onChanged(one, stored.rollout.state, true)
      return { rollout: describe(one.stored), changed }
    },
    find(id) {
      const stored = storedOf(id)
      return stored && describe(stored)
    },
    list: (limit) => store.newest(limit).map((stored) => describe(open.get(stored.id)?.stored ?? stored)),
    devices(id, from, state, limit) {
      const stored = storedOf(id)
      return stored ? store.devices(stored.n, from, state ?? null, limit).map(describeDevice) : []
    },
    failures(id, limit) {
      const stored = storedOf(id)
      return stored ? store.latestFailed(stored.n, limit).map(describeDevice) : []
    },
    counts() {
      const sums: Record<string, number> = { waiting: 0, started: 0, succeeded: 0, failed: 0, canceled: 0, skipped: 0 }
      for (const one of open.values())
        for (const [state, count] of Object.entries(devicesOf(one.stored))) if (state in sums) sums[state]! += count
      return sums
    },
    async close() {
      unsubscribe()
      isClosed = true
      await stopTicking?.()
      for (const one of open.values()) one.close()
    },
  }
}

const eventOf = (command: RolloutCommand, by: string): RolloutEvent =>
  command === 'resume' ? { kind: command } : { kind: command, reason: `by ${by}` }

function describe({ id, kind, input, selector, pace, createdMs, createdBy, endedMs, rollout }: StoredRollout): Rollout {
  return {
    id,
    kind,
    input,
    selector,
    pace,
    state: rollout.state,
    reason: rollout.reason,
    ratePerMinute: Math.floor(rateOf(rollout.terms, rollout.outcomes.succeeded)),
    createdAt: isoOf(createdMs),
    createdBy,
    endedAt: endedMs === null ? null : isoOf(endedMs),
    devices: devicesOf({ rollout }),
  }
}

function devicesOf({ rollout }: Pick<StoredRollout, 'rollout'>): Rollout['devices'] {
  const { devices: total, next, outcomes } = rollout
  const waiting = isOpen(rollout) ? total - next : 0
  return { total, waiting, started: next - endedDevices(rollout), ...outcomes, soaking: isOpen(rollout) ? rollout.soaking : 0 }
}

const describeDevice = ({ place, device, state, job, startedMs, endedMs, error }: StoredRolloutDevice): RolloutDevice => ({
  place,
  device,
  state,
  job,
  startedAt: startedMs === null ? null : isoOf(startedMs),
  endedAt: endedMs === null ? null : isoOf(endedMs),
  error,
})

const inAnother = (device: string, other: string, kind: string) =>
  new BrimError('REQUEST_INVALID', `device "${device}" waits for, or takes part in, rollout ${other}, which is a ${kind} too`, {
    hint: `wait for its end, or "brim rollout pause ${other}": devices that it has not started are free then; "abort" ends it`,
  })
