import type { Io } from '../../../core/kit/base/io.ts'
import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import { type Rollout, type RolloutDevice, rolloutOperations } from '../../../core/wire/protocol/http/rollouts.ts'
import type { BridgeClient } from '../bridge-client.ts'
import { watchBridge } from '../watch-bridge.ts'
import { devicesText, hasEnded, progressText, requireSuccess, summaryText } from './rollout-text.ts'

const intervalMs = 1_000

/**
 * Follows a rollout to its end: redraws its progress on a terminal, elsewhere prints it after each change. A paused one is
 * followed on, until an operator has decided.
 * @throws BrimError ROLLOUT_FAILED, and as the client does
 */
export async function followRollout(client: BridgeClient, id: string, json: boolean, io: Io): Promise<void> {
  const redraws = io.outIsTty && !json
  let shown: string | undefined
  await watchBridge(io, intervalMs, async (onAnswer) => {
    const { raw, value } = await client.call(rolloutOperations.show, { params: { id } })
    onAnswer()
    const text = json ? JSON.stringify(raw) : followText(value)
    if (redraws) io.raw.out(`\u001b[H\u001b[J${text}\n`)
    else if (text !== shown) io.out(text)
    if (text !== shown && value.state === 'paused' && !json)
      io.err(visibleLine(`it waits for "brim rollout resume ${id}" or "brim rollout abort ${id}"`))
    shown = text
    if (hasEnded(value)) requireSuccess(value)
    return hasEnded(value)
  })
}

/** Follows a rollout that has just been created, or prints its id. */
export async function showNew(
  client: BridgeClient,
  { raw, id, devices }: { readonly raw: unknown; readonly id: string; readonly devices: number },
  { watch, json }: { readonly watch: boolean; readonly json: boolean },
  io: Io,
): Promise<void> {
  if (!watch) return io.out(json ? JSON.stringify(raw) : visibleLine(id))
  if (!json) io.err(visibleLine(`rollout ${id}: ${devices} devices`))
  return followRollout(client, id, json, io)
}

/** How far it is, and why devices failed. */
function followText(rollout: Rollout & { readonly failures: readonly RolloutDevice[] }): string {
  const { failures } = rollout
  const lines = [summaryText(rollout), progressText(rollout)].map(visibleLine)
  return [...lines, ...(failures.length > 0 ? [devicesText(failures)] : [])].join('\n')
}
