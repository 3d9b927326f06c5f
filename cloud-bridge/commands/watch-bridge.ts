import { systemClock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Io } from '../../core/kit/base/io.ts'
import { visibleLine } from '../../core/kit/base/visible-text.ts'

/**
 * Repeats a step until Ctrl-C, or until it returns true. A bridge that has answered once may only be restarting: an outage is
 * printed, and the step tried again.
 * @param step calls `onAnswer` with each response. @throws BrimError of the step
 */
export async function watchBridge(io: Io, intervalMs: number, step: (onAnswer: () => void) => Promise<boolean>): Promise<void> {
  let hasAnswered = false
  let isReported = false
  const onAnswer = () => {
    hasAnswered = true
    isReported = false
  }
  while (!io.signal.aborted) {
    try {
      if (await step(onAnswer)) return
    } catch (error) {
      if (io.signal.aborted) return
      const isLost = error instanceof BrimError && (error.code === 'BRIDGE_UNREACHABLE' || error.code === 'LINK_LOST')
      if (!hasAnswered || !isLost) throw error
      if (!isReported) io.err(visibleLine(`${error.message}; reconnecting`))
      isReported = true
    }
    await systemClock.sleep(intervalMs, io.signal).catch(() => {})
  }
}
