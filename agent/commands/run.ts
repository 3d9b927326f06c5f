import { z } from 'zod'
import { systemClock, untilAborted } from '../../core/base/clock.ts'
import type { Io } from '../../core/base/io.ts'
import { isJournal } from '../../core/base/journal.ts'
import { orAborted } from '../../core/base/or-aborted.ts'
import { isTermination } from '../../core/base/termination.ts'
import { withTimeout } from '../../core/base/with-timeout.ts'
import type { OptionsOf } from '../../core/cli/command.ts'
import { limitFlag } from '../../core/cli/limit-flag.ts'
import { defineConfiguredCommand } from '../../core/config-file/configured-command.ts'
import { startService } from '../../core/service/service.ts'
import type { OpenSmall } from '../agent.ts'
import { AgentFields, type AgentSettings } from '../config.ts'
import { releaseMemoryAtRest } from '../idle-memory.ts'
import { AgentLimits } from '../limits.ts'
import { agentStateDir, stateDirOption } from './state-dir.ts'

/** `hottestC=2` or `W=20%`: the name or unit of a figure, and its dead band. */
export const DeadBand = z
  .string()
  .regex(/^\w+=\d+(\.\d+)?%?$/, 'must be like hottestC=2 (an amount) or W=20% (a part of the last value)')
  .transform((text): [string, { amount: number } | { part: number }] => {
    const [name = '', size = ''] = text.split('=')
    return [name, size.endsWith('%') ? { part: Number.parseFloat(size) / 100 } : { amount: Number(size) }]
  })

const { deadBands: _, limits: __, ...fields } = AgentFields.shape

export const options = {
  ...fields,
  stateDir: stateDirOption,
  deadBand: z
    .array(DeadBand)
    .meta({
      fleet: true,
      description: 'change of a figure, by name or unit, that causes no telemetry message: hottestC=2, W=20%; repeatable',
      fallback: 'set per unit, such as C=5 and Percent=25',
    })
    .optional(),
  limit: limitFlag(AgentLimits),
}

export const command = defineConfiguredCommand({
  examples: [
    ['brim agent run --bundle qwen --id jetson-01', 'with a bridge on this machine; API on port 7071'],
    ['brim agent run --bundle qwen --id jetson-01 --bridge mqtts://a --bridge mqtts://b', 'with two bridges'],
    [
      'brim agent run --bundle qwen --slm qwen-small --id phone-01 --server bridge --mode auto --budget-share 0.3',
      'small model and bridge by turns or at once: most of the prompts stay with one side',
    ],
    ['brim agent run --config agent.yaml', 'options from a file, each by its name: "api-port: 7071"'],
    ['brim agent run --bundle qwen --id jetson-02 --api-port 0 --json', 'a free port, printed as one line of JSON'],
  ],
  options,
  run: ({ parse }, io) => runAgent(parse(), io),
})

/** The settings of an agent with these options. */
export function agentSettings(given: OptionsOf<typeof options>, io: Io): AgentSettings {
  const { json: _, stateDir, deadBand = [], limit = [], ...settings } = given
  return {
    ...settings,
    deadBands: Object.fromEntries(deadBand),
    limits: Object.fromEntries(limit),
    log: { ...settings.log, priorities: isJournal(io.env) },
    library: io.env.ORT_LIB || undefined,
    stateDir: agentStateDir(stateDir, settings.id, io),
  }
}

/**
 * Runs an agent until the command is interrupted.
 * @param openSmall opens a small model; absent: as it is
 */
export async function runAgent(given: OptionsOf<typeof options>, io: Io, openSmall?: OpenSmall): Promise<void> {
  const { json, ...settings } = given
  const { releaseUnusedMemory } = await import('../../core/engine/resident-memory.ts')
  const { startAgent } = await import('../agent.ts')
  const starting = startAgent(agentSettings(given, io), systemClock, undefined, openSmall)
  const agent = await orAborted(starting, io.signal, (late) => late.close())
  const service = await startService({
    env: io.env,
    stalled: () => agent.stalled,
    status: () => agent.status,
    clock: systemClock,
    logger: agent.logger,
  })
  const stopReleasing = releaseMemoryAtRest(agent.answers, releaseUnusedMemory, systemClock)
  try {
    const { apiUrl, modelId, slm } = agent
    if (json) io.out(JSON.stringify({ event: 'ready', apiUrl, device: settings.id, modelId: modelId ?? null, slm }))
    else {
      const lines = [
        `agent ${settings.id} ready`,
        `  API    ${apiUrl}`,
        `  model  ${modelId ?? 'none yet: waits for a job bundle.install --activate'}`,
      ]
      if (slm !== undefined) lines.push(`  SLM    ${slm}`)
      const { server, dispatch } = settings
      if (dispatch.mode !== 'private' || server) lines.push(`  mode   ${dispatch.mode}${server ? `, server ${server.at}` : ''}`)
      io.out(lines.join('\n'))
    }
    const failure = await Promise.race([untilAborted(io.signal), agent.idTaken])
    if (failure) throw failure
    service.stopping()
    if (isTermination(io.signal)) await withTimeout(settings.drainS * 1_000, agent.drain(), systemClock)
  } finally {
    await stopReleasing()
    await agent.close()
    await service.close()
  }
}
