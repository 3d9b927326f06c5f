import type { Argv, CommandModule } from 'yargs'
import { systemClock } from '../../core/base/clock.ts'
import { BrimError, toErrorJson, toErrorText } from '../../core/base/errors.ts'
import type { Io } from '../../core/base/io.ts'
import { bridgeClient, bridgeOptions } from './bridge-access.ts'
import type { BridgeClient } from './bridge-client.ts'
import { type AtBridge, labelOption, matcherOf } from './fleet-options.ts'
import { DeviceLine } from './fleet-table.ts'
import { acknowledged, devicePath, give, readDevices } from './order.ts'

interface OrderOptions extends AtBridge {
  device?: string | undefined
  label?: string[] | undefined
  timeout: number
  /** Of drain, true: until it has no job; of both, false: for nothing. */
  wait?: boolean | undefined
}
type Verb = 'drain' | 'undrain'

/** How often it is looked whether a device has finished. */
const lookEveryMs = 500

/** `brim device drain` */
export function drainCommand(io: Io): CommandModule<object, OrderOptions> {
  return {
    command: 'drain [device]',
    describe: 'no new jobs for a device until "undrain"; it finishes what it has, and answers on',
    builder: (yargs) =>
      orderOptions(yargs, 'drain')
        .example('brim device drain jetson-01 --wait', 'before maintenance: returns once it has nothing under way')
        .example('brim device drain --label site=lab', 'several at once')
        .option('wait', { type: 'boolean', describe: 'until it has no job any more; --no-wait: not even for its answer' }),
    handler: (options) => order('drain', options, io),
  }
}

/** `brim device undrain` */
export function undrainCommand(io: Io): CommandModule<object, OrderOptions> {
  return {
    command: 'undrain [device]',
    describe: 'a device that was drained takes jobs again',
    builder: (yargs) =>
      orderOptions(yargs, 'undrain')
        .example('brim device undrain jetson-01', 'back to work')
        .option('wait', { type: 'boolean', describe: '--no-wait: not even for its answer' }),
    handler: (options) => order('undrain', options, io),
  }
}

const orderOptions = (yargs: Argv, verb: Verb) =>
  yargs
    .options(bridgeOptions)
    .usage(`Usage: brim device ${verb} <device> | --label key=value [options]`)
    .positional('device', { type: 'string', describe: 'its name in the list' })
    .option('label', labelOption)
    .option('timeout', {
      type: 'number',
      requiresArg: true,
      default: 30,
      describe: 'seconds in which the device must have heard of it: then it has expired and is not done any more',
    })

/** What came of one device. */
interface Outcome {
  readonly device: string
  readonly error?: unknown
  readonly told: string
  readonly json: object
}

async function order(verb: Verb, options: OrderOptions, io: Io): Promise<void> {
  const { timeout, wait, json } = options
  const client = await bridgeClient(options, io)
  const devices = await chosen(client, options)
  const outcomes = await Promise.all(
    devices.map(async (device): Promise<Outcome> => {
      try {
        const given = await give(client, device, { type: verb }, timeout)
        if (wait === false) return { device, told: `${verb} is on its way, until ${given.expiresAt}`, json: given }
        const done = await acknowledged(client, given)
        if (verb === 'undrain') return { device, told: 'takes jobs again', json: done }
        const jobs = await jobsOf(client, device, wait === true, io)
        const told = jobs === 0 ? 'drained' : `drains: ${jobs} ${jobs === 1 ? 'job' : 'jobs'} to finish`
        return { device, told, json: { ...done, jobs } }
      } catch (error) {
        if (io.signal.aborted) throw error
        return { device, error, told: '', json: { device, ...toErrorJson(error) } }
      }
    }),
  )
  const failed = outcomes.filter(({ error }) => error !== undefined)
  if (options.device !== undefined && failed[0]) throw failed[0].error
  for (const { device, told, error, json: document } of outcomes) {
    if (json) io.out(JSON.stringify(document))
    else if (error === undefined) io.out(`${device}: ${told}`)
    else io.err(`${device}: ${toErrorText(error)}`)
  }
  if (failed.length > 0)
    throw new BrimError('COMMAND_EXPIRED', `${failed.length} of ${outcomes.length} devices did not ${verb}`, {
      hint: 'each is told of above',
    })
}

/** @throws BrimError USAGE */
async function chosen(client: BridgeClient, { device, label }: OrderOptions): Promise<string[]> {
  if ((device === undefined) === (label === undefined))
    throw new BrimError('USAGE', 'name one device, or several with --label key=value', { hint: '"brim device list" names them' })
  if (device !== undefined) return [device]
  const devices = (await readDevices(client)).filter(matcherOf(label))
  if (devices.length > 0) return devices.map(({ id }) => id)
  throw new BrimError('DEVICE_UNKNOWN', `no device has the label ${label?.join(' and ')}`, { hint: 'brim device list' })
}

/** @param untilNone looks until there is none */
async function jobsOf(client: BridgeClient, device: string, untilNone: boolean, io: Io): Promise<number> {
  for (;;) {
    const { jobs } = DeviceLine.parse(await client.get(devicePath(device)))
    if (jobs === 0 || !untilNone) return jobs
    await systemClock.sleep(lookEveryMs, io.signal)
  }
}
