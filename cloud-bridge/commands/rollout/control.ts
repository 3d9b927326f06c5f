import { z } from 'zod'
import type { Io } from '../../../core/kit/base/io.ts'
import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import type { OptionsOf } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { rolloutOperations } from '../../../core/wire/protocol/http/rollouts.ts'
import { bridgeClient } from '../bridge-client.ts'
import { summaryText } from './rollout-text.ts'

export const rolloutIdOption = z.string().describe('id of the rollout, as "brim rollout list" shows it')

export const controlOptions = { id: rolloutIdOption, ...bridgeOptions }

/** Pauses, resumes or aborts a rollout, and prints what it is then. */
export async function controlRollout(
  command: 'pause' | 'resume' | 'abort',
  { id, json, ...options }: OptionsOf<typeof controlOptions>,
  io: Io,
): Promise<void> {
  const client = await bridgeClient(options, io)
  const { raw, value } = await client.call(rolloutOperations[command], { params: { id } })
  if (json) return io.out(JSON.stringify(raw))
  io.out(visibleLine(summaryText(value)))
  if (!value.changed) io.err(visibleLine(`nothing changed: the rollout was ${value.state} before`))
}
