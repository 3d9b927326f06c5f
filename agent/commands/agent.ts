import type { CommandModule } from 'yargs'
import { untilAborted } from '../../core/base/clock.ts'
import type { Io } from '../../core/base/io.ts'
import { type Wire, wires } from '../../core/protocol/frame.ts'
import { startAgent } from '../agent.ts'
import type { AgentSettings } from '../config.ts'
import { type DrafterName, drafterNames } from '../hat/create-drafter.ts'
import { type Prefill, prefills, type StrategyName, strategyNames } from '../hat/strategy.ts'
import { readDeadBand } from './dead-band.ts'
import { enrollCommand, resetIdentityCommand } from './enroll.ts'
import { sampleCommand } from './sample.ts'
import { agentStateDir } from './state-dir.ts'

interface RunOptions {
  bundle: string
  id: string
  bridge?: string[] | undefined
  dataUrl?: string | undefined
  strategy?: StrategyName | undefined
  prefill?: Prefill | undefined
  reuse?: boolean | undefined
  slm?: string | undefined
  drafter?: DrafterName | undefined
  draftAhead?: boolean | undefined
  padding?: boolean | undefined
  wire?: Wire | undefined
  patience?: number | undefined
  telemetry?: number | undefined
  deadBand?: string[] | undefined
  heartbeat?: number | undefined
  spoolMb?: number | undefined
  spoolDays?: number | undefined
  apiPort?: number | undefined
  stateDir?: string | undefined
  threads?: number | undefined
  fleet?: string | undefined
  logLevel?: AgentSettings['logLevel']
  json?: boolean | undefined
}

/** `brim agent …` */
export function agentCommand(io: Io): CommandModule {
  return {
    command: 'agent <verb>',
    describe: "a device's side: answers on this device, with the middle of the model at the bridge",
    builder: (yargs) =>
      yargs
        .command(runCommand(io))
        .command(enrollCommand(io))
        .command(resetIdentityCommand(io))
        .command(sampleCommand(io))
        .demandCommand(1, 'say what the agent shall do: brim agent --help'),
    handler: () => {},
  }
}

function runCommand(io: Io): CommandModule<object, RunOptions> {
  return {
    command: 'run',
    describe: 'run an agent until it is stopped',
    builder: (yargs) =>
      yargs
        .usage('Usage: brim agent run --bundle <dir> --id <name> [options]')
        .example('brim agent run --bundle qwen --id jetson-01', 'with a bridge on this machine; API on port 7071')
        .example('brim agent enroll --id jetson-01 --token-file token', 'become known to a bridge elsewhere')
        .example('brim agent run --bundle qwen --id jetson-01 --bridge mqtt://a:1883 --bridge mqtt://b:1883', 'two bridges')
        .example('brim agent run --bundle qwen --id jetson-02 --api-port 0 --json', 'a free port, told in one JSON line')
        .option('bundle', {
          type: 'string',
          demandOption: true,
          describe: 'folder of the bundle, the same as at the bridge; or the beginning of the id of an installed one',
        })
        .option('id', { type: 'string', demandOption: true, describe: 'name of this device in its fleet' })
        .option('bridge', {
          type: 'string',
          array: true,
          nargs: 1,
          describe:
            'MQTT address of a bridge; again for another that takes over [where this device has enrolled, else mqtt://127.0.0.1:1883]',
        })
        .option('data-url', {
          type: 'string',
          describe: "the bridge's data plane as seen from here (a tunnel, a forwarded port) [as it is announced]",
        })
        .option('slm', {
          type: 'string',
          describe:
            'a small whole model, its folder or id likewise: goes on where no bridge does, for those who ask with --fallback slm',
        })
        .option('drafter', { choices: drafterNames, describe: 'what drafts; auto: whichever is fastest in a session [auto]' })
        .option('draft-ahead', {
          type: 'boolean',
          describe: 'draft on while a verification is away; --no-draft-ahead saves power [yes]',
        })
        .option('prefill', {
          choices: prefills,
          describe: 'how prompts are sent: in chunks, or whole (all: every deep state comes back) [chunked]',
        })
        .option('reuse', { type: 'boolean', describe: 'begin with what the bridge holds of earlier prompts [yes]' })
        .option('strategy', {
          choices: strategyNames,
          describe:
            'the four above as HAT has them, or as a baseline does (u-sarathi: with brim bridge run --token-budget 128) [hat]',
        })
        .option('wire', {
          choices: wires,
          describe: 'hidden states on the wire; int8: half the bytes, may change answers [fp16]',
        })
        .option('padding', { type: 'boolean', describe: 'all verifications of one length [where the link is encrypted]' })
        .option('patience', { type: 'number', describe: 'seconds that an answer waits for a bridge to take it over [20]' })
        .option('telemetry', {
          type: 'number',
          describe: "seconds between reports of link, speed and the device's condition; 0: none [10]",
        })
        .option('dead-band', {
          type: 'string',
          array: true,
          nargs: 1,
          describe:
            'how far a figure may move without a report of its own, by name or unit: hottestC=2, W=20%; again for others [as in core/policy/telemetry.ts]',
        })
        .option('heartbeat', {
          type: 'number',
          describe: "seconds between signs of life; 0: none, the broker's word is enough [30]",
        })
        .option('spool-mb', { type: 'number', describe: 'telemetry kept while no bridge hears, at most so many MB [64]' })
        .option('spool-days', { type: 'number', describe: 'and for no longer than so many days [7]' })
        .option('api-port', { type: 'number', describe: 'port of the API on this device; 0: a free one [7071]' })
        .option('state-dir', { type: 'string', describe: "folder of the agent's database" })
        .option('threads', { type: 'number', describe: 'threads per operator [2]' })
        .option('fleet', { type: 'string', describe: 'name of the fleet [default]' })
        .option('log-level', {
          choices: ['silent', 'error', 'warn', 'info', 'debug'] as const,
          describe: 'log on stderr [warn]',
        }),
    handler: async ({ json, ...options }) => {
      const agent = await startAgent(settingsOf(options, io))
      try {
        const { apiUrl, modelId, slm } = agent
        if (json) io.out(JSON.stringify({ event: 'ready', apiUrl, device: options.id, modelId, slm }))
        else {
          const lines = [`agent ${options.id} ready`, `  API    ${apiUrl}`, `  model  ${modelId}`]
          io.out([...lines, ...(slm === undefined ? [] : [`  SLM    ${slm}`])].join('\n'))
        }
        await untilAborted(io.signal)
      } finally {
        await agent.close()
      }
    },
  }
}

/** Only what was said: the rest is the configuration's to decide. */
function settingsOf(options: RunOptions, io: Io): AgentSettings {
  const { bundle, id, bridge: bridges, patience: patienceS, telemetry: telemetryS, logLevel = 'warn' } = options
  const { heartbeat: heartbeatS, spoolMb, spoolDays } = options
  const deadBands = options.deadBand && Object.fromEntries(options.deadBand.map(readDeadBand))
  const { dataUrl, slm, strategy, prefill, reuse, wire, padding, apiPort, threads, fleet } = options
  const stateDir = agentStateDir(options.stateDir, id, io)
  const library = io.env.ORT_LIB || undefined
  const link = { bridges, dataUrl, patienceS, telemetryS, deadBands, heartbeatS, spoolMb, spoolDays, wire, padding, fleet }
  const all = { library, slm, strategy, prefill, reuse, apiPort, threads, ...link }
  const said = Object.entries(all).filter(([, value]) => value !== undefined)
  const { drafter, draftAhead } = options
  const draft = { draft: { ...(drafter ? { drafter } : {}), ...(draftAhead === undefined ? {} : { ahead: draftAhead }) } }
  return { bundle, id, stateDir, logLevel, ...draft, ...Object.fromEntries(said) }
}
