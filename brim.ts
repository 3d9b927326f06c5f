#!/usr/bin/env node
import { realpathSync } from 'node:fs'
import { Socket } from 'node:net'
import { addAbortSignal } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import yargs from 'yargs'
import { agentCommand } from './agent/commands/agent.ts'
import { askCommand } from './agent/commands/ask.ts'
import { checkDevice } from './agent/commands/device-check.ts'
import { bridgeCommand } from './cloud-bridge/commands/bridge.ts'
import { deviceCommand } from './cloud-bridge/commands/device.ts'
import { fleetCommand } from './cloud-bridge/commands/fleet.ts'
import { jobCommand } from './cloud-bridge/commands/job.ts'
import { loginCommand, logoutCommand, whoamiCommand } from './cloud-bridge/commands/login.ts'
import { BrimError, type ExitCode, exitCodeOf, exitCodes, toErrorJson, toErrorText } from './core/base/errors.ts'
import type { Io } from './core/base/io.ts'
import { version } from './core/base/version.ts'
import { doctorCommand } from './core/commands/doctor.ts'
import { modelCommand } from './core/commands/model.ts'
import { benchCommand } from './lab/bench/command.ts'
import { demoCommand } from './scripts/demonstration/command.ts'

/** The front door: composes the commands of core, agent, bridge and lab. */
function buildCli(argv: readonly string[], io: Io) {
  return yargs([...argv])
    .scriptName('brim')
    .usage('One language model across your fleet and your cloud.\n\nUsage: brim <noun> <verb> [options]')
    .example('brim demo', 'a bridge, two devices, three private answers, on this machine')
    .example('brim model build ./Qwen2.5-0.5B --split 2 --format int4 --out qwen', 'checkpoint → bundle')
    .example('brim bridge run --bundle qwen', "the cloud's side")
    .example('brim agent run --bundle qwen --id jetson-01', "a device's side")
    .example('brim ask "Can you book a table for two?"', 'ask through the agent on this device')
    .command(askCommand(io))
    .command(modelCommand(io))
    .command(agentCommand(io))
    .command(bridgeCommand(io))
    .command(deviceCommand(io))
    .command(fleetCommand(io))
    .command(jobCommand(io))
    .command(loginCommand(io))
    .command(logoutCommand(io))
    .command(whoamiCommand(io))
    .command(doctorCommand(io, [checkDevice]))
    .command(benchCommand(io))
    .command(demoCommand(io))
    .option('json', {
      type: 'boolean',
      global: true,
      default: false,
      describe: 'print one JSON document (one per line when streaming)',
    })
    .demandCommand(1, 'say what to do: brim --help lists the commands')
    .recommendCommands()
    .strict()
    .check(refuseRepeated)
    .version(version)
    .alias('h', 'help')
    .wrap(Math.min(100, process.stdout.columns ?? 100))
    .exitProcess(false)
    .fail((message, error) => {
      // Handlers throw what they mean; what yargs itself finds wrong is usage.
      if (error instanceof Error && error.name !== 'YError') throw error
      const firstOption = argv.findIndex((word) => word.startsWith('-'))
      const words = argv.slice(0, firstOption < 0 ? 2 : Math.min(2, firstOption)).join(' ')
      const guess = message.startsWith('Did you mean') ? message : undefined
      // yargs counts words, and means those that a command needs beside its name.
      const isShort = message.startsWith('Not enough non-option arguments')
      const what = guess ? `there is no command "brim ${words}"` : isShort ? `"brim ${words}" alone is not enough` : message
      throw new BrimError('USAGE', what, {
        hint: guess ?? (isShort ? `brim ${words} --help` : 'add --help to see the options and examples'),
      })
    })
}

/** yargs makes an array of an option that is given twice: only these mean it. */
const repeatable = ['stop', 'bridge', 'label', 'changes', 'dead-band', 'deadBand']

/** @throws BrimError USAGE */
function refuseRepeated(values: Record<string, unknown>): boolean {
  const names = Object.keys(values).filter((name) => name !== '_' && !repeatable.includes(name))
  const repeated = names.find((name) => Array.isArray(values[name]))
  if (repeated === undefined) return true
  throw new BrimError('USAGE', `--${repeated} is given more than once`, { hint: 'give it once' })
}

/** Runs one command. Results go to `io.out`, all else to `io.err`. */
export async function run(argv: readonly string[], io: Io): Promise<ExitCode> {
  try {
    // With a callback yargs hands over what it would print (help, version).
    await buildCli(argv, io).parseAsync([...argv], {}, (_error, _arguments, output) => {
      if (output) io.out(output)
    })
    return exitCodes.ok
  } catch (thrown) {
    // What was waited for says only that it was aborted: why is said by whoever did it.
    const error = io.signal.aborted && thrown instanceof Error && thrown.name === 'AbortError' ? io.signal.reason : thrown
    io.err(argv.includes('--json') ? JSON.stringify(toErrorJson(error)) : toErrorText(error))
    return exitCodeOf(error)
  }
}

async function main(): Promise<void> {
  const stop = new AbortController()
  let ended: ExitCode | undefined
  const end = (code: ExitCode) => () => {
    // A second signal means it: no more waiting for a clean end.
    if (ended !== undefined) process.exit(code)
    ended = code
    stop.abort(new BrimError('CANCELED', 'interrupted'))
  }
  process.on('SIGINT', end(exitCodes.interrupted))
  process.on('SIGTERM', end(exitCodes.terminated))
  // Whoever starts us as a part of something (the demonstration, a benchmark) may die without a word.
  if (process.env.BRIM_STOP_WITH_STDIN !== undefined) {
    process.stdin.on('end', end(exitCodes.terminated)).resume()
    // Listening for its end is no reason to stay.
    if (process.stdin instanceof Socket) process.stdin.unref()
  }
  // A reader that goes away (`brim … | head`) is no failure.
  process.stdout.on('error', (error: NodeJS.ErrnoException) =>
    process.exit(error.code === 'EPIPE' ? exitCodes.ok : exitCodes.failed),
  )
  const code = await run(process.argv.slice(2), {
    out: (text) => process.stdout.write(text.endsWith('\n') ? text : `${text}\n`),
    write: (text) => process.stdout.write(text),
    err: (text) => process.stderr.write(text.endsWith('\n') ? text : `${text}\n`),
    // Interrupted, it is waited for no more.
    stdin: () => text(addAbortSignal(stop.signal, process.stdin)),
    outIsTty: process.stdout.isTTY === true,
    errIsTty: process.stderr.isTTY === true,
    get outRows() {
      // 0 where the terminal does not know.
      return process.stdout.rows || undefined
    },
    env: process.env,
    signal: stop.signal,
  })
  process.exitCode = ended ?? code
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) await main()
