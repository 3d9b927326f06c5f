import type { Clock } from '../../core/base/clock.ts'
import { Proxies } from '../../core/listen/proxies.ts'
import { Downlink } from '../link/downlink.ts'
import { type ListenerSettings, listenerSettings } from '../listener-settings.ts'
import type { Base } from './base.ts'
import { maxOpenFiles } from './max-open-files.ts'

/** Minimum interval between two publications of the retained state, and of a large fleet: each one goes to every device. */
const announceEveryMs = 1_000
const announcedDevicesPerS = 500

/** Publishes the bridge's retained state again. */
export interface Announcer {
  /** It has changed. */
  trigger(): void
  onFleetSize(devices: number): void
}

/** How others reach the bridge, and how it reaches them. */
export interface Network {
  readonly listeners: ListenerSettings
  /** In front of the HTTP listener. */
  readonly proxies: Proxies
  readonly downlink: Downlink
  readonly announce: Announcer
}

export function openNetwork({ config, clock, closers, logger }: Base): Network {
  const downlink = new Downlink()
  const announce = announcer(() => downlink.publishState(), clock)
  closers.push(announce.stop)
  return {
    listeners: listenerSettings(config.limits, maxOpenFiles(), logger.child({ component: 'listen' })),
    proxies: new Proxies(config.trustedProxies ?? []),
    downlink,
    announce,
  }
}

/** Runs `publish` once, an interval after the first of several triggers. */
function announcer(publish: () => void, clock: Clock): Announcer & { stop(): void } {
  const stopping = new AbortController()
  let everyMs = announceEveryMs
  let waiting = false
  return {
    onFleetSize(devices) {
      everyMs = Math.max(announceEveryMs, (devices / announcedDevicesPerS) * 1_000)
    },
    trigger() {
      if (waiting || stopping.signal.aborted) return
      waiting = true
      clock.sleep(everyMs, stopping.signal).then(
        () => {
          waiting = false
          publish()
        },
        () => {},
      )
    },
    stop: () => stopping.abort(),
  }
}
