import type { Clock } from '../../core/kit/base/clock.ts'
import { Proxies } from '../../core/kit/listen/proxies.ts'
import { Downlink } from '../link/downlink.ts'
import { type ListenerSettings, listenerSettings } from '../listener-settings.ts'
import type { Base } from './base.ts'
import { maxOpenFiles } from './max-open-files.ts'
import type { PrimaryNode } from './primary-node.ts'

/** Minimum interval between two publications of the retained state, and of a large fleet: each one goes to every device. */
const announceEveryMs = 1_000
const announcedDevicesPerS = 500

/** Publishes the bridge's retained state again: once, an interval after the first of several changes. */
export class Announcer {
  readonly #publish: () => void
  readonly #clock: Clock
  readonly #stopping = new AbortController()
  #everyMs = announceEveryMs
  #isWaiting = false

  constructor(publish: () => void, clock: Clock) {
    this.#publish = publish
    this.#clock = clock
  }

  onFleetSize(devices: number): void {
    this.#everyMs = Math.max(announceEveryMs, (devices / announcedDevicesPerS) * 1_000)
  }

  /** The state has changed. */
  readonly trigger = (): void => {
    if (this.#isWaiting || this.#stopping.signal.aborted) return
    this.#isWaiting = true
    this.#clock.sleep(this.#everyMs, this.#stopping.signal).then(
      () => {
        this.#isWaiting = false
        this.#publish()
      },
      () => {},
    )
  }

  close(): void {
    this.#stopping.abort()
  }
}

/** How others reach the bridge, and how it reaches them. */
export interface Network {
  readonly listeners: ListenerSettings
  /** In front of the HTTP listener. */
  readonly proxies: Proxies
  readonly downlink: Downlink
  readonly announce: Announcer
  /** Of a bridge with --database: what waits for it. */
  readonly node: Pick<PrimaryNode, 'after' | 'stored'> | undefined
}

/** @param node of a bridge with --database: nothing is sent before it has made safe what was stored */
export function openNetwork({ config, clock, closers, logger }: Base, node?: PrimaryNode): Network {
  const downlink = new Downlink(node?.after)
  const announce = new Announcer(() => downlink.publishState(), clock)
  closers.push(() => announce.close())
  return {
    listeners: listenerSettings(config.limits, maxOpenFiles(), logger.child({ component: 'listen' })),
    proxies: new Proxies(config.trustedProxies ?? []),
    downlink,
    announce,
    node,
  }
}
