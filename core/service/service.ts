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

/** Interval of the status line where the service manager has no watchdog. */
const statusMs = 30_000

/**
 * Tells the service manager that the process is ready; from now on feeds its watchdog, at half its interval. The timer is the
 * proof that the event loop runs, `stalled` that the other loops do. Without a service manager it does nothing.
 */
export async function startService({ env, stalled, status, clock, logger }: ServiceOptions): Promise<Service> {
  const notify = await openNotify({ env, logger })
  if (!notify) return { stopping() {}, close: async () => {} }
  const watchdogMs = watchdogMsOf(env)
  let isStopping = false
  let wasStalled = false
  const lines = () => [isStopping ? 'STOPPING=1' : 'READY=1', `STATUS=${status()}`]
  const tick = () => {
    const names = stalled()
    if (names.length > 0 && !wasStalled) logger.error({ stalled: names }, 'no progress: the watchdog is not fed')
    if (names.length === 0 && wasStalled) logger.warn('progress again: the watchdog is fed')
    wasStalled = names.length > 0
    notify(...lines(), ...(watchdogMs !== undefined && !wasStalled ? ['WATCHDOG=1'] : []))
  }
  tick()
  const stop = repeatEvery(clock, watchdogMs === undefined ? statusMs : watchdogMs / 2, tick)
  return {
    stopping() {
      isStopping = true
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
