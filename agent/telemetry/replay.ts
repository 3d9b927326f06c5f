import { type Clock, untilAborted } from '../../core/base/clock.ts'
import { nextReplay } from '../../core/policy/telemetry/spool.ts'
import type { BridgeLinks } from '../link/bridge-links.ts'
import type { Spool } from './spool.ts'

/** So many a second: 64 MB take an hour or two, and a tenth of a slow uplink. */
const gapMs = 100
/** Whether somebody hears, and something waits, is looked at so often. */
const lookEveryMs = 1_000

export interface ReplayOptions {
  readonly spool: Spool
  readonly links: Pick<BridgeLinks, 'hasBridge' | 'publish'>
  readonly clock: Clock
}

/** Says what waits in the spool, one message after the other, whenever a bridge hears. */
export function startReplay({ spool, links, clock }: ReplayOptions): { close(): Promise<void> } {
  const stopping = new AbortController()
  const { signal } = stopping
  /** A broker that hangs keeps nobody. */
  const stopped = untilAborted(signal).then(() => false)
  const pause = (ms: number) => clock.sleep(ms, signal).catch(() => {})

  async function run(): Promise<void> {
    let sentMs = Number.NEGATIVE_INFINITY
    while (!signal.aborted) {
      const step = nextReplay(spool.shelves, links.hasBridge, clock.nowMs() - sentMs, gapMs)
      switch (step.kind) {
        case 'idle':
          await pause(lookEveryMs)
          break
        case 'wait':
          await pause(step.ms)
          break
        case 'send': {
          const message = spool.next(step.leaf)
          sentMs = clock.nowMs()
          // Forgotten once the broker has it: what a crash comes between is said twice.
          if (message && (await Promise.race([links.publish(step.leaf, message.text), stopped]))) {
            // A disk that is full does not even forget: until it does, nothing is said, or the same would be for ever.
            while (!spool.done(step.leaf, message.n) && !signal.aborted) await pause(lookEveryMs)
          } else await pause(lookEveryMs)
          break
        }
        default:
          step satisfies never
      }
    }
  }

  const running = run()
  return {
    async close() {
      stopping.abort()
      await running
    },
  }
}
