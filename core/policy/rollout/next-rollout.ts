import {
  devicesUnderWay,
  endedDevices,
  isOpen,
  type RolloutAction,
  type RolloutEvent,
  type RolloutState,
  type RolloutStep,
  type RolloutTerms,
} from './rollout.ts'
import { recentAt, startsDue } from './start-rate.ts'

/**
 * The only way in which a rollout changes. Devices start at ticks, within the rate. A rollout that has ended changes only by
 * the outcomes of the devices that were under way or watched.
 * @param nowMs wall clock
 */
export function nextRollout(rollout: RolloutState, event: RolloutEvent, nowMs: number): RolloutStep {
  switch (event.kind) {
    case 'tick':
      return ticked(rollout, nowMs)
    case 'ended': {
      if (devicesUnderWay(rollout) === 0) return unchanged(rollout)
      const outcomes = { ...rollout.outcomes, [event.outcome]: rollout.outcomes[event.outcome] + 1 }
      const soaking = rollout.soaking + Number(event.outcome === 'succeeded')
      return judged({ ...rollout, outcomes, soaking })
    }
    case 'soaked':
      return rollout.soaking === 0 ? unchanged(rollout) : judged({ ...rollout, soaking: rollout.soaking - 1 })
    case 'lost': {
      if (rollout.soaking === 0) return unchanged(rollout)
      const { succeeded, failed } = rollout.outcomes
      const outcomes = { ...rollout.outcomes, succeeded: succeeded - 1, failed: failed + 1 }
      return judged({ ...rollout, outcomes, soaking: rollout.soaking - 1 })
    }
    case 'pause':
      return rollout.state === 'running' ? step({ ...rollout, state: 'paused', reason: event.reason }) : unchanged(rollout)
    case 'resume':
      return rollout.state === 'paused'
        ? step({ ...rollout, state: 'running', reason: null, isFirstPassed: rollout.isFirstPassed || hasFirstEnded(rollout) })
        : unchanged(rollout)
    case 'abort':
      return isOpen(rollout) ? aborted(rollout, event.reason) : unchanged(rollout)
    default:
      return event satisfies never
  }
}

const step = (rollout: RolloutState, ...actions: RolloutAction[]): RolloutStep => ({ rollout, actions })
const unchanged = (rollout: RolloutState): RolloutStep => step(rollout)

/** Judges again first: the watch over devices may have ended while the bridge was off. */
function ticked(rollout: RolloutState, nowMs: number): RolloutStep {
  if (rollout.state === 'paused' && isDone(rollout)) return completed(rollout)
  if (rollout.state !== 'running') return unchanged(rollout)
  const now = judged(rollout)
  return now.rollout.state === 'running' ? started(now.rollout, nowMs) : now
}

const isDone = (rollout: RolloutState): boolean => endedDevices(rollout) === rollout.devices && rollout.soaking === 0
const completed = (rollout: RolloutState): RolloutStep => step({ ...rollout, state: 'completed', reason: null })

function started(rollout: RolloutState, nowMs: number): RolloutStep {
  const { next: from, devices, terms, isFirstPassed } = rollout
  const last = isFirstPassed ? devices : Math.min(devices, terms.first)
  const count = Math.min(last - from, startsDue(rollout, nowMs))
  if (count <= 0) return unchanged(rollout)
  const recentStarts = [...recentAt(rollout.recentStarts, nowMs), { atMs: nowMs, devices: count }]
  return step({ ...rollout, next: from + count, recentStarts }, { kind: 'start', from, count })
}

/** The outcome of a device has changed. */
function judged(rollout: RolloutState): RolloutStep {
  if (!isOpen(rollout)) return unchanged(rollout)
  const { terms, outcomes, isFirstPassed } = rollout
  if (isAboveLimit(outcomes, terms)) {
    const share = `${outcomes.failed} of ${outcomes.failed + outcomes.succeeded} devices failed`
    return aborted(rollout, `${share}, more than ${terms.abortAbovePercent} %`)
  }
  if (isDone(rollout)) return completed(rollout)
  if (isFirstPassed || !hasFirstEnded(rollout)) return step(rollout)
  const others = terms.first - outcomes.succeeded
  const pause = (reason: string) => step({ ...rollout, state: 'paused', reason })
  if (others > 0) return pause(`${others} of ${terms.first} devices of the first group did not succeed`)
  if (terms.pauseAfterFirst) return pause('the first group has ended')
  return step({ ...rollout, isFirstPassed: true })
}

const isAboveLimit = (
  { succeeded, failed }: RolloutState['outcomes'],
  { abortAfter, abortAbovePercent }: RolloutTerms,
): boolean => succeeded + failed >= abortAfter && failed * 100 > abortAbovePercent * (succeeded + failed)

/** Before the gate is passed, only devices of the first group have started. */
const hasFirstEnded = (rollout: RolloutState): boolean => endedDevices(rollout) >= rollout.terms.first && rollout.soaking === 0

function aborted(rollout: RolloutState, reason: string): RolloutStep {
  const { next: from, devices, outcomes } = rollout
  const skipped = outcomes.skipped + devices - from
  const ended = { ...rollout, state: 'aborted' as const, reason, next: devices, outcomes: { ...outcomes, skipped } }
  return step(ended, { kind: 'skip', from }, { kind: 'cancel' })
}
