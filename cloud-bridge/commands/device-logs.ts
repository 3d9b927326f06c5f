import type { CommandModule } from 'yargs'
import { z } from 'zod'
import { systemClock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Io } from '../../core/base/io.ts'
import { type LogLevel, logLevels } from '../../core/protocol/commands.ts'
import { bridgeClient, bridgeOptions } from './bridge-access.ts'
import type { BridgeClient } from './bridge-client.ts'
import { printable } from './figures.ts'
import type { AtBridge } from './fleet-options.ts'
import { acknowledged, devicePath, give } from './order.ts'

interface LogsOptions extends AtBridge {
  device: string
  follow: boolean
  level: LogLevel
  lines: number
}

/** A line as the bridge tells of it. */
export const LogLine = z.looseObject({
  n: z.number(),
  at: z.string(),
  level: z.string(),
  component: z.string(),
  message: z.string(),
  fields: z.record(z.string(), z.unknown()),
  dropped: z.number().default(0),
})

/** What a device does not tell by itself it tells for so long; asked again before, while somebody follows. */
const streamS = 120
const askAgainMs = 90_000
/** Within which it must have heard of it. */
const askWithinS = 15

/** `brim device logs` */
export function logsCommand(io: Io): CommandModule<object, LogsOptions> {
  return {
    command: 'logs <device>',
    describe: "a device's log, as far as it has reached the bridge: warnings and errors, more while it is followed",
    builder: (yargs) =>
      yargs
        .options(bridgeOptions)
        .usage('Usage: brim device logs <device> [options]')
        .example('brim device logs jetson-01', 'the latest warnings and errors')
        .example('brim device logs jetson-01 --follow --level debug', 'everything, as it happens, until Ctrl-C')
        .positional('device', { type: 'string', demandOption: true, describe: 'its name in the list' })
        .option('follow', { type: 'boolean', default: false, describe: 'go on until Ctrl-C' })
        .option('level', {
          choices: logLevels,
          default: 'warn' as const,
          describe: `this level and above; with --follow the device is asked for info and debug, for ${streamS} s at a time`,
        })
        .option('lines', { type: 'number', requiresArg: true, default: 100, describe: 'most lines of the past' })
        .epilogue('Nothing of what is asked or answered stands in a log. Times are the device’s own.'),
    handler: (options) => (options.follow ? follow(options, io) : show(options, io)),
  }
}

async function show(options: LogsOptions, io: Io): Promise<void> {
  const { device, level, lines } = options
  const body = await (await bridgeClient(options, io)).get(devicePath(device, `/log?level=${level}&lines=${lines}`))
  const { lines: past } = z.object({ lines: z.array(LogLine) }).parse(body)
  if (options.json) return io.out(JSON.stringify(body))
  if (past.length === 0) return io.err(`${device} has told this bridge of nothing at this level since the bridge started`)
  for (const line of past) io.out(textOf(line))
}

async function follow(options: LogsOptions, io: Io): Promise<void> {
  const { device, level, lines } = options
  const client = await bridgeClient(options, io)
  const ended = new AbortController()
  const signal = AbortSignal.any([ended.signal, io.signal])
  const broken = (cause?: unknown) =>
    new BrimError('LINK_LOST', 'the connection to the bridge broke', { cause, hint: 'follow again' })
  const asking = level === 'info' || level === 'debug' ? keepAsking(client, device, level, signal, io) : undefined
  try {
    for await (const raw of client.events(devicePath(device, `/log?level=${level}&lines=${lines}`)))
      io.out(options.json ? JSON.stringify(raw) : textOf(LogLine.parse(raw)))
    throw broken()
  } catch (error) {
    if (!io.signal.aborted) throw error instanceof BrimError ? error : broken(error)
  } finally {
    ended.abort()
    await asking
  }
}

/** That it cannot be asked is said, and no reason not to show what comes by itself. */
async function keepAsking(client: BridgeClient, device: string, level: LogLevel, signal: AbortSignal, io: Io): Promise<void> {
  while (!signal.aborted) {
    try {
      await acknowledged(client, await give(client, device, { type: 'logs', level, forS: streamS }, askWithinS))
    } catch (error) {
      if (!(error instanceof BrimError)) throw error
      if (!signal.aborted) io.err(`it tells warnings and errors alone: ${error.message} [${error.code}]`)
    }
    await systemClock.sleep(askAgainMs, signal).catch(() => {})
  }
}

/** Time, level, part, message, figures. */
export function textOf({ at, level, component, message, fields, dropped }: z.infer<typeof LogLine>): string {
  const figures = Object.entries(fields).map(([name, value]) => `${name}=${figure(value)}`)
  const left = dropped > 0 ? [`(${dropped} lines before it were too many)`] : []
  return printable([at, level.toUpperCase().padEnd(5), component.padEnd(8), message, ...figures, ...left].join(' '))
}

const figure = (value: unknown): string =>
  typeof value === 'string' && !/^[^\s"=]+$/.test(value) ? JSON.stringify(value) : String(value)
