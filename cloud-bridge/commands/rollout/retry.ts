import { z } from 'zod'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { rolloutOperations } from '../../../core/wire/protocol/http/rollouts.ts'
import { bridgeClient } from '../bridge-client.ts'
import { controlOptions } from './control.ts'
import { showNew } from './follow.ts'

export const command = defineCommand({
  examples: [['brim rollout retry 3f9a1c07 --watch', 'the same again, for the devices that failed']],
  notes: 'It is a new rollout, with the pace of the one before. Devices that were canceled or skipped are not part of it.',
  options: {
    ...controlOptions,
    watch: z.boolean().default(false).describe('follow the new rollout to its end; exit code 1 where devices did not succeed'),
  },
  async run({ id, watch, json, ...options }, io) {
    const client = await bridgeClient(options, io)
    const { raw, value } = await client.call(rolloutOperations.retry, { params: { id } })
    const { rollout, devices } = value
    if (rollout) await showNew(client, { raw, id: rollout.id, devices: devices.length }, { watch, json }, io)
  },
})
