import { systemClock } from '../../../core/base/clock.ts'
import { BrimError } from '../../../core/base/errors.ts'
import type { Io } from '../../../core/base/io.ts'
import { visibleLine } from '../../../core/base/visible-text.ts'
import { rolloutOperations } from '../../../core/protocol/http/rollouts.ts'
import type { BridgeClient } from '../bridge-client.ts'
import { hasEnded, progressText, requireSuccess, summaryText } from './rollout-text.ts'

const intervalMs = 1_000

/**
 * Follows a rollout to its end: redraws its progress on a terminal, elsewhere prints it after each change. A paused one is
 * followed on, until an operator has decided.
 * @throws BrimError ROLLOUT_FAILED, and as the client does
 */
export async function followRollout(client: BridgeClient, id: string, json: boolean, io: Io): Promise<void> {
  const redraws = io.outIsTty && !json
  let shown: string | undefined
  let reported: string | undefined
  while (!io.signal.aborted) {
    try {
      const { raw, value } = await client.call(rolloutOperations.show, { params: { id } })
      const text = json ? JSON.stringify(raw) : `${visibleLine(summaryText(value))}\n${visibleLine(progressText(value))}`
      if (redraws) io.raw.out(`\u001b[H\u001b[J${text}\n`)
      else if (text !== shown) io.out(text)
      if (text !== shown && value.state === 'paused' && !json)
        io.err(visibleLine(`it waits for "brim rollout resume ${id}" or "brim rollout abort ${id}"`))
      shown = text
      reported = undefined
      if (hasEnded(value)) return requireSuccess(value)
    } catch (error) {
      // A bridge that has answered once may only be restarting.
      if (io.signal.aborted) break
      if (shown === undefined || !(error instanceof BrimError) || error.code !== 'BRIDGE_UNREACHABLE') throw error
      if (reported !== error.message) io.err(visibleLine(`${error.message}; reconnecting`))
      reported = error.message
    }
    await systemClock.sleep(intervalMs, io.signal).catch(() => {})
  }
}
