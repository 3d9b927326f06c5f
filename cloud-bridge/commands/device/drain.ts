import { z } from 'zod'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { BrimError, toErrorJson, toErrorText } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { positive } from '../../../core/kit/base/setting-kinds.ts'
import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import { defineCommand, type OptionsOf } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { deviceOperations } from '../../../core/wire/protocol/http/devices.ts'
import { type BridgeClient, bridgeClient } from '../bridge-client.ts'
import { devicesWith, labelOption } from '../labels.ts'
import { awaitReply, deviceOption, sendCommand } from './remote-command.ts'

const pollMs = 500

/** Of commands that go to one device, or to all with a label. */
const optionsWith = (wait: string) => ({
  device: deviceOption.optional(),
  label: labelOption,
  timeout: positive(30).describe('time for the device to receive the command, in seconds; after that it is no longer sent'),
  ...bridgeOptions,
  // False: not even for the reply.
  wait: z.boolean().optional().describe(wait),
})
const usage = '<device> | --label key=value'
const drainOptions = optionsWith(
  'wait until its last job has ended, not only for its reply; --no-wait: return once the bridge has stored the command',
)

export const drain = defineCommand({
  usage,
  examples: [
    ['brim device drain jetson-01 --wait', 'before maintenance: returns when its last job has ended'],
    ['brim device drain --label site=lab', 'several devices at once'],
  ],
  options: drainOptions,
  run: (options, io) =>
    commandDevices('drain', options, io, async (client, device) => {
      const jobs = await jobsOf(client, device, options.wait === true, io)
      const text = jobs === 0 ? 'drained' : `draining: ${jobs} ${jobs === 1 ? 'job' : 'jobs'} to finish`
      return { text, json: { jobs } }
    }),
})

export const undrain = defineCommand({
  usage,
  examples: [['brim device undrain jetson-01', 'back to work']],
  options: optionsWith("wait for the device's reply; --no-wait: return once the bridge has stored the command"),
  run: (options, io) => commandDevices('undrain', options, io, async () => ({ text: 'takes jobs again', json: {} })),
})

/** @param untilNone polls until the device has no job */
async function jobsOf(client: BridgeClient, id: string, untilNone: boolean, io: Io): Promise<number> {
  for (;;) {
    const { jobs } = (await client.call(deviceOperations.show, { params: { id } })).value
    if (jobs === 0 || !untilNone) return jobs
    await systemClock.sleep(pollMs, io.signal)
  }
}

/** Result of a command at one device, as text and for --json. */
interface Outcome {
  readonly text: string
  readonly json: object
}

/**
 * Sends a remote command to each device chosen, and prints a line for each.
 * @param onDone called after a device's reply
 * @throws BrimError USAGE, DEVICE_UNKNOWN, COMMAND_REFUSED, COMMAND_EXPIRED
 */
async function commandDevices(
  type: 'drain' | 'undrain',
  options: OptionsOf<typeof drainOptions>,
  io: Io,
  onDone: (client: BridgeClient, device: string) => Promise<Outcome>,
): Promise<void> {
  const client = await bridgeClient(options, io)
  const send = async (device: string): Promise<Outcome> => {
    const sent = await sendCommand(client, device, { type }, options.timeout)
    if (options.wait === false) return { text: `${type} sent, expires at ${sent.expiresAt}`, json: sent }
    const reply = await awaitReply(client, sent)
    const { text, json } = await onDone(client, device)
    return { text, json: { ...reply, ...json } }
  }
  if (options.device !== undefined && options.label === undefined)
    return print(options.device, await send(options.device), options.json, io)
  if ((options.device === undefined) === (options.label === undefined))
    throw new BrimError('USAGE', 'give the name of one device, or --label key=value', { hint: '"brim device list" lists them' })
  const devices = await devicesWith(client, options.label ?? [])
  const outcomes = await Promise.allSettled(devices.map(send))
  io.signal.throwIfAborted()
  for (const [at, outcome] of outcomes.entries()) {
    const device = devices[at]!
    if (outcome.status === 'fulfilled') print(device, outcome.value, options.json, io)
    else if (options.json) io.out(JSON.stringify({ device, ...toErrorJson(outcome.reason) }))
    else io.err(`${visibleLine(device)}: ${toErrorText(outcome.reason)}`)
  }
  const failed = outcomes.filter(({ status }) => status === 'rejected').length
  if (failed > 0)
    throw new BrimError('COMMAND_EXPIRED', `${failed} of ${devices.length} devices did not ${type}`, {
      hint: 'the error of each is printed above',
    })
}

function print(device: string, { text, json }: Outcome, isJson: boolean, io: Io): void {
  io.out(isJson ? JSON.stringify(json) : visibleLine(`${device}: ${text}`))
}
