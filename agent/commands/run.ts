import { join } from 'node:path'
import { z } from 'zod'
import { systemClock, untilAborted } from '../../core/kit/base/clock.ts'
import { BrimError, toErrorJson } from '../../core/kit/base/errors.ts'
import { releaseMemoryAtRest } from '../../core/kit/base/idle-memory.ts'
import type { Io } from '../../core/kit/base/io.ts'
import { isJournal } from '../../core/kit/base/journal.ts'
import { orAborted } from '../../core/kit/base/or-aborted.ts'
import { isTermination } from '../../core/kit/base/termination.ts'
import { withTimeout } from '../../core/kit/base/with-timeout.ts'
import type { OptionsOf } from '../../core/kit/cli/command.ts'
import { limitFlag } from '../../core/kit/cli/limit-flag.ts'
import { type Configuration, defineConfiguredCommand } from '../../core/kit/config-file/configured-command.ts'
import type { Settings } from '../../core/kit/config-file/setting.ts'
import { type Service, startService } from '../../core/kit/service/service.ts'
import { withDrivers } from '../../core/model/engine/provider.ts'
import type { ShownComputing } from '../../core/wire/protocol/computing.ts'
import type { Agent, AgentVariant, Changes } from '../agent.ts'
import { AgentFields, type AgentSettings, readAgentConfig } from '../config.ts'
import { FleetConfig, FleetSettings } from '../config-layer/fleet-config.ts'
import { AgentLimits } from '../limits.ts'
import type { Software } from '../software/software.ts'
import { TrialFile } from '../trial/trial-file.ts'
import { agentStateDir, stateDirOption } from './state-dir.ts'

/** `hottestC=2` or `W=20%`: the name or unit of a figure, and its dead band. */
export const DeadBandOption = z
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
  deadBand: z.array(DeadBandOption).optional().meta({
    fleet: true,
    description: 'change of a figure, by name or unit, that causes no telemetry message: hottestC=2, W=20%; repeatable',
    fallback: 'set per unit, such as C=5 and Percent=25',
  }),
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
  groups: {
    slm: 'Small models and sketches (PICE)',
    mode: 'Dispatch of answers (DiSCo)',
    server: 'Server',
    'budget-dollars': 'Budget',
    'privacy-rule': 'Privacy',
    fleet: 'Fleet, state and API',
    threads: 'Computing and drafting (HAT)',
    patience: 'Link and telemetry',
    'drain-seconds': 'Service and log',
  },
  run: runConfigured,
})

/** What the fleet has set on the device of these options. @throws BrimError as its parsing */
export function openFleetConfig(
  { parse, flags, owner }: Pick<Configuration<typeof options>, 'parse' | 'flags' | 'owner'>,
  io: Io,
) {
  const { stateDir, id } = parse()
  const file = new TrialFile(join(agentStateDir(stateDir, id, io), 'fleet-config.json'), FleetSettings)
  const check = (fleet: Settings) => void readAgentConfig(agentSettings(parse(fleet), io))
  return new FleetConfig({ file, flags, owner, check })
}

export function agentSettings(given: OptionsOf<typeof options>, io: Io): AgentSettings {
  const { json: _, stateDir, deadBand = [], limit = [], ...settings } = given
  return {
    ...settings,
    deadBands: Object.fromEntries(deadBand),
    limits: Object.fromEntries(limit),
    log: { ...settings.log, priorities: isJournal(io.env) },
    library: io.env.ORT_LIB || undefined,
    otlpEndpoint: settings.otlpEndpoint ?? (io.env.OTEL_EXPORTER_OTLP_ENDPOINT || undefined),
    provider: withDrivers(settings.provider, io.env),
    stateDir: agentStateDir(stateDir, settings.id, io),
  }
}

/** The releases that jobs have installed; undefined: the agent was not started by jetson/launch. */
async function openSoftware({ stateDir, id }: OptionsOf<typeof options>, io: Io): Promise<Software | undefined> {
  const { BRIM_RELEASES: path, BRIM_RELEASE: running } = io.env
  if (!path) return undefined
  const { Software } = await import('../software/software.ts')
  return new Software({ path, running: running || undefined, stateDir: agentStateDir(stateDir, id, io) })
}

/** Where an agent gets its options from. They may change while it runs. */
interface Starts {
  readonly changes: Changes
  /** Of the next start. */
  options(): OptionsOf<typeof options>
  /** @returns whether another start has other options */
  onFailedStart(error: unknown): boolean
  /** The agent has ended so that it starts again. @throws BrimError RESTART_REQUIRED if another process must start it */
  onRestart(): void
}

/** Runs an agent whose fleet may set some of its options. */
async function runConfigured({ parse, flags, owner }: Configuration<typeof options>, io: Io): Promise<void> {
  const { stateDir, id } = parse()
  const { requireOwnFolder } = await import('../../core/kit/store/as-owner.ts')
  requireOwnFolder(agentStateDir(stateDir, id, io))
  const fleetConfig = openFleetConfig({ parse, flags, owner }, io)
  const software = await openSoftware(parse(), io)
  const restored = software?.start() ?? []
  if (restored.length > 0) io.err(`restored after a release that was not healthy: ${restored.join(', ')}`)
  const starts: Starts = {
    changes: { fleetConfig, software },
    options: () => parse(fleetConfig.start()),
    onFailedStart(error) {
      // The health gate would have the same result.
      if (software?.onTrial) software.onTrial.undo(`the agent did not start: ${toErrorJson(error).error.message}`)
      software?.switchOver()
      return fleetConfig.onFailedStart(error)
    },
    onRestart: () => software?.switchOver(),
  }
  return runStarts(starts, io)
}

/**
 * Runs an agent until the command is interrupted.
 * @param variant of a benchmark
 */
export const runAgent = (given: OptionsOf<typeof options>, io: Io, variant?: AgentVariant): Promise<void> =>
  runStarts({ changes: {}, options: () => given, onFailedStart: () => false, onRestart() {} }, io, variant)

async function runStarts(starts: Starts, io: Io, variant?: AgentVariant): Promise<void> {
  const { releaseUnusedMemory } = await import('../../core/model/engine/resident-memory.ts')
  const { startAgent } = await import('../agent.ts')
  let running: Agent | undefined
  let service: Service | undefined
  // Clients of a free port find it again after another start.
  let apiPort: number | undefined
  try {
    for (;;) {
      const given = { ...starts.options(), ...(apiPort === undefined ? {} : { apiPort }) }
      const starting = startAgent(agentSettings(given, io), systemClock, undefined, variant, starts.changes)
      const agent = await orAborted(starting, io.signal, (late) => late.close()).catch((error: unknown) => {
        if (io.signal.aborted || !starts.onFailedStart(error)) throw error
      })
      if (!agent) continue
      running = agent
      service ??= await startService({
        env: io.env,
        stalled: () => running?.stalled ?? [],
        status: () => running?.status ?? 'starting again',
        clock: systemClock,
        logger: agent.logger,
      })
      const stopReleasing = releaseMemoryAtRest(
        () => ({ active: agent.answers.active, done: agent.answers.totals.busyS }),
        releaseUnusedMemory,
        systemClock,
      )
      try {
        printReady(agent, given, io)
        const end = await Promise.race([untilAborted(io.signal), agent.idTaken, agent.restart])
        if (end instanceof BrimError) throw end
        if (end === undefined) service.stopping()
        if (end !== undefined || isTermination(io.signal)) await withTimeout(given.drainS * 1_000, agent.drain(), systemClock)
        if (end === undefined) return
      } finally {
        await stopReleasing()
        await agent.close()
        running = undefined
      }
      if (io.signal.aborted) return
      starts.onRestart()
      apiPort = Number(new URL(agent.apiUrl).port)
    }
  } finally {
    await service?.close()
  }
}

function printReady({ apiUrl, modelId, computing, slm }: Agent, given: OptionsOf<typeof options>, io: Io): void {
  const { id, dispatch, server } = given
  if (given.json) {
    io.out(JSON.stringify({ event: 'ready', apiUrl, device: id, modelId: modelId ?? null, computing: computing ?? null, slm }))
    return
  }
  const lines = [
    `agent ${id} ready`,
    `  API    ${apiUrl}`,
    `  model  ${modelId ?? 'none yet: waits for a job bundle.install --activate'}`,
  ]
  if (computing?.llm) lines.push(onLine(computing.llm))
  if (slm !== undefined) lines.push(`  SLM    ${slm}`)
  if (computing?.slm) lines.push(onLine(computing.slm))
  if (dispatch.mode !== 'private' || server) lines.push(`  mode   ${dispatch.mode}${server ? `, server ${server.at}` : ''}`)
  lines.push(...waysLines(given, slm !== undefined).map((line) => `         ${line}`))
  io.out(lines.join('\n'))
}

/** What answers when. */
function waysLines({ bundle, dispatch, server }: OptionsOf<typeof options>, hasSmallModel: boolean): string[] {
  const remote = server && (server.at === 'bridge' ? 'the bridge, in full or by sketch' : 'the server')
  const inAuto = [hasSmallModel && 'the small model', remote, bundle !== undefined && 'HAT'].filter((way) => way !== false)
  const ways = inAuto.filter((way) => way !== undefined)
  if (ways.length < 2) return []
  const usual = dispatch.mode === 'auto' ? 'auto' : 'with --mode auto'
  return [
    `${usual}: ${ways.join(', ')}, whichever its reader waits for least within --budget-share ${dispatch.share}`,
    ...(remote ? ['with --mode private, or auto and --private: no text leaves this device'] : []),
  ]
}

const onLine = ({ provider, reason }: ShownComputing) => `  on     ${provider}: ${reason}`
