import { setMaxListeners } from 'node:events'
import { systemClock } from '../../core/kit/base/clock.ts'

/**
 * Begins each item when it is due, whether or not earlier ones have ended.
 * @param begin gets the time since the first, in ms
 */
export function playInTime<Item extends { readonly atMs: number }, Result>(
  items: readonly Item[],
  signal: AbortSignal,
  begin: (item: Item, atMs: number, nth: number) => Promise<Result>,
): Promise<Result[]> {
  // Each item listens until it is due.
  const waiting = AbortSignal.any([signal])
  setMaxListeners(0, waiting)
  const startedMs = systemClock.nowMs()
  return Promise.all(
    items.map(async (item, nth) => {
      await systemClock.sleep(Math.max(0, startedMs + item.atMs - systemClock.nowMs()), waiting)
      return begin(item, systemClock.nowMs() - startedMs, nth)
    }),
  )
}
