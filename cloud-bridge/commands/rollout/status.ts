import { z } from 'zod'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import { defineCommand, type OptionsOf } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { type RolloutDevice, rolloutDeviceStates, rolloutOperations } from '../../../core/wire/protocol/http/rollouts.ts'
import { type BridgeClient, bridgeClient } from '../bridge-client.ts'
import { followRollout } from './follow.ts'
import { devicesText, progressText, rolloutIdOption, summaryText } from './rollout-text.ts'

const options = {
  id: rolloutIdOption.optional().meta({ fallback: 'the latest' }),
  devices: z.boolean().default(false).describe('list its devices instead'),
  state: z
    .enum(rolloutDeviceStates)
    .optional()
    .meta({ description: 'with --devices: only those in this state', fallback: 'all' }),
  watch: z.boolean().default(false).describe('follow the rollout to its end; exit code 1 where devices did not succeed'),
  ...bridgeOptions,
}

export const command = defineCommand({
  examples: [
    ['brim rollout status', 'the latest rollout, with the devices that failed last'],
    ['brim rollout status 3f9a1c07 --watch', 'until its end'],
    ['brim rollout status 3f9a1c07 --devices --state failed', 'every device that failed, and why'],
    ['brim rollout status --json | jq .devices', 'for programs'],
  ],
  notes: 'A rollout ends for each device once: succeeded, failed, canceled (its job was), or skipped (it never started).',
  options,
  run: showStatus,
})

async function showStatus(given: OptionsOf<typeof options>, io: Io): Promise<void> {
  const client = await bridgeClient(given, io)
  const id = given.id ?? (await latestOf(client))
  if (given.watch) return followRollout(client, id, given.json, io)
  if (given.devices || given.state !== undefined) return listDevices(client, id, given, io)
  const { raw, value } = await client.call(rolloutOperations.show, { params: { id } })
  if (given.json) return io.out(JSON.stringify(raw))
  io.out(visibleLine(summaryText(value)))
  io.out(visibleLine(progressText(value)))
  if (value.failures.length > 0) io.out(`\n${devicesText(value.failures)}`)
}

const pageDevices = 1_000

/** All of them, page by page: a rollout may have ten thousand. */
async function listDevices(client: BridgeClient, id: string, { state, json }: OptionsOf<typeof options>, io: Io): Promise<void> {
  const devices: RolloutDevice[] = []
  const documents: unknown[] = []
  let isLast = false
  for (let from = 0; !isLast; ) {
    const query = { from, state, limit: pageDevices }
    const { raw, value } = await client.call(rolloutOperations.devices, { params: { id }, query })
    devices.push(...value.devices)
    documents.push(...(raw as { devices: unknown[] }).devices)
    const next = (value.devices.at(-1)?.place ?? 0) + 1
    isLast = value.devices.length < pageDevices || next <= from
    from = next
  }
  if (json) io.out(JSON.stringify({ devices: documents }))
  else if (devices.length === 0) io.err('no matching devices')
  else io.out(devicesText(devices))
}

async function latestOf(client: BridgeClient): Promise<string> {
  const [latest] = (await client.call(rolloutOperations.list, { query: { limit: 1 } })).value.rollouts
  if (latest) return latest.id
  throw new BrimError('ROLLOUT_UNKNOWN', 'this bridge has no rollout', { hint: 'brim rollout create --help' })
}
