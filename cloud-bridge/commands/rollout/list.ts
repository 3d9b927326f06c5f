import { z } from 'zod'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { type Rollout, rolloutOperations } from '../../../core/wire/protocol/http/rollouts.ts'
import { bridgeClient } from '../bridge-client.ts'
import { columns } from '../columns.ts'

export const command = defineCommand({
  examples: [['brim rollout list', 'the newest first']],
  options: { limit: z.int().min(1).default(20).describe('max rollouts'), ...bridgeOptions },
  async run({ json, limit, ...options }, io) {
    const { raw, value } = await (await bridgeClient(options, io)).call(rolloutOperations.list, { query: { limit } })
    if (json) return io.out(JSON.stringify(raw))
    if (value.rollouts.length === 0) return io.err('no rollouts')
    io.out(columns([['ROLLOUT', 'KIND', 'STATE', 'DONE', 'FAILED', 'CREATED', 'BY', 'REASON'], ...value.rollouts.map(rowOf)]))
  },
})

const rowOf = ({ id, kind, state, devices, createdAt, createdBy, reason }: Rollout): string[] => [
  id,
  kind,
  state,
  `${devices.succeeded}/${devices.total}`,
  String(devices.failed),
  createdAt,
  createdBy,
  reason ?? '',
]
