import type { Clock } from '../base/clock.ts'
import type { Logger } from '../base/logger.ts'
import { repeatEvery } from '../base/repeat.ts'
import { openNotify } from './notify.ts'

/** What a service manager learns of this process. */
export interface ServiceOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Names of loops that make no progress: while there are any, the watchdog is not fed. */
  readonly stalled: () => readonly string[]
  /** One line that `systemctl status` shows. */
  readonly status: () => string
  readonly clock: Clock
  readonly logger: Logger
}

export interface Service {
  /** The process ends what it has begun, and then itself. */
  stopping(): void
  /** Feeds the watchdog no longer. */
  close(): Promise<void>
}

/** How often the status line is compared with the one that was sent. */
const statusMs = 5_000

/**
 * Tells the service manager that the process is ready; from now on feeds its watchdog, at half its interval. The timer is the
 * proof that the event loop runs, `stalled` that the other loops do. Without a service manager it does nothing.
 */
export async function startService({ env, stalled, status, clock, logger }: ServiceOptions): Promise<Service> {
  const notify = await openNotify({ env, logger })
  if (!notify) return { stopping() {}, close: async () => {} }
  const watchdogMs = watchdogMsOf(env)
  let state = 'READY=1'
  let sent = ''
  let fedMs = Number.NEGATIVE_INFINITY
  let wasStalled = false
  const isFeedDue = () => watchdogMs !== undefined && clock.nowMs() - fedMs >= watchdogMs / 2
  const feeds = () => {
    const names = stalled()
    if (names.length > 0 && !wasStalled) logger.error({ stalled: names }, 'no progress: the watchdog is not fed')
    if (names.length === 0 && wasStalled) logger.warn('progress again: the watchdog is fed')
    wasStalled = names.length > 0
    return !wasStalled
  }
  const tick = () => {
    const line = `STATUS=${status()}`
    const due = isFeedDue()
    if (line === sent && !due) return
    sent = line
    const feed = due && feeds()
    if (feed) fedMs = clock.nowMs()
    // The state again each time: one message may have been lost.
    notify(state, line, ...(feed ? ['WATCHDOG=1'] : []))
  }
  tick()
  const stop = repeatEvery(clock, Math.min(statusMs, (watchdogMs ?? statusMs) / 2), tick)
  return {
    stopping() {
      state = 'STOPPING=1'
      sent = ''
      tick()
    },
    close: stop,
  }
}

/** The interval within which the watchdog must be fed; undefined: there is none, or it watches another process. */
function watchdogMsOf({ WATCHDOG_USEC, WATCHDOG_PID }: ServiceOptions['env']): number | undefined {
  const ms = Number(WATCHDOG_USEC) / 1_000
  return ms > 0 && (WATCHDOG_PID === undefined || WATCHDOG_PID === String(process.pid)) ? ms : undefined
}
