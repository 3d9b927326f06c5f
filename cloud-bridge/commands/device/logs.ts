import { z } from 'zod'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import { defineCommand, type OptionsOf } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { type LogLevel, logLevels } from '../../../core/wire/protocol/commands.ts'
import { deviceOperations, type LogLine } from '../../../core/wire/protocol/http/devices.ts'
import { type BridgeClient, bridgeClient } from '../bridge-client.ts'
import { awaitReply, deviceOption, sendCommand } from './remote-command.ts'

/** A device reports info and debug on request, for this long; the request is renewed before that. */
const streamS = 120
const renewMs = 90_000
/** Expiry of that command. */
const expiresS = 15

const options = {
  device: deviceOption,
  follow: z.boolean().default(false).describe('stream new lines until Ctrl-C'),
  level: z
    .enum(logLevels)
    .default('warn')
    .describe(`lowest level shown; with --follow the device is asked to report info and debug, for ${streamS} s at a time`),
  lines: z.int().min(0).default(100).describe('max past lines'),
  ...bridgeOptions,
}
type LogsOptions = OptionsOf<typeof options>

export const command = defineCommand({
  examples: [
    ['brim device logs jetson-01', 'the latest warnings and errors'],
    ['brim device logs jetson-01 --follow --level debug', 'everything as it happens'],
  ],
  options,
  notes: "A log never contains prompts or answers. Times are the device's own.",
  run: (given, io) => (given.follow ? follow(given, io) : show(given, io)),
})

async function show(options: LogsOptions, io: Io): Promise<void> {
  const { device, level, lines } = options
  const client = await bridgeClient(options, io)
  const { raw, value } = await client.call(deviceOperations.log, { params: { id: device }, query: { level, lines } })
  if (options.json) return io.out(JSON.stringify(raw))
  const { lines: past } = value
  if (past.length === 0) return io.err(`no lines of this level from ${device} since the bridge started`)
  for (const line of past) io.out(deviceLogText(line))
}

async function follow(options: LogsOptions, io: Io): Promise<void> {
  const { device, level, lines } = options
  const client = await bridgeClient(options, io)
  const ended = new AbortController()
  const signal = AbortSignal.any([ended.signal, io.signal])
  const broken = (cause?: unknown) =>
    new BrimError('LINK_LOST', 'the connection to the bridge broke', { cause, hint: 'run the command again' })
  const renewal = level === 'info' || level === 'debug' ? renewStream(client, device, level, signal, io) : undefined
  try {
    for await (const { raw, value } of client.events(deviceOperations.log, { params: { id: device }, query: { level, lines } }))
      io.out(options.json ? JSON.stringify(raw) : deviceLogText(value))
    throw broken()
  } catch (error) {
    if (!io.signal.aborted) throw error instanceof BrimError ? error : broken(error)
  } finally {
    ended.abort()
    await renewal
  }
}

/** Asks the device for its info and debug lines until the signal. A failure is printed: warnings and errors still arrive. */
async function renewStream(client: BridgeClient, device: string, level: LogLevel, signal: AbortSignal, io: Io): Promise<void> {
  while (!signal.aborted) {
    try {
      await awaitReply(client, await sendCommand(client, device, { type: 'logs', level, forS: streamS }, expiresS))
    } catch (error) {
      if (!(error instanceof BrimError)) throw error
      if (!signal.aborted) io.err(visibleLine(`only warnings and errors will arrive: ${error.message} [${error.code}]`))
    }
    await systemClock.sleep(renewMs, signal).catch(() => {})
  }
}

export function deviceLogText({ at, level, component, message, fields, dropped }: LogLine): string {
  const values = Object.entries(fields).map(([name, value]) => `${name}=${fieldText(value)}`)
  const missing = dropped > 0 ? [`(${dropped} lines before this one were dropped)`] : []
  return visibleLine([at, level.toUpperCase().padEnd(5), component.padEnd(8), message, ...values, ...missing].join(' '))
}

const fieldText = (value: unknown): string =>
  typeof value === 'string' && !/^[^\s"=]+$/.test(value) ? JSON.stringify(value) : String(value)
