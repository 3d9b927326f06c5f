import type { Argv } from 'yargs'
import { BrimError } from '../../core/base/errors.ts'
import type { Io } from '../../core/base/io.ts'
import { JobsClient } from './jobs-client.ts'

/** Of commands that ask a bridge by HTTP. */
export interface AtBridge {
  bridgeUrl: string
  keyFile?: string | undefined
  json?: boolean | undefined
}

export const atBridge = <T>(yargs: Argv<T>): Argv<T & AtBridge> =>
  yargs
    .option('bridge-url', {
      type: 'string',
      requiresArg: true,
      default: 'http://127.0.0.1:7070',
      describe: "the bridge's HTTP",
    })
    .option('key-file', {
      type: 'string',
      requiresArg: true,
      describe: 'a key of "brim bridge key create", where the bridge asks for one',
    }) as unknown as Argv<T & AtBridge>

/** A client for `/v1/devices` and `/v1/fleet` of the bridge. */
export const fleetClient = ({ bridgeUrl, keyFile }: AtBridge, io: Io): JobsClient =>
  new JobsClient(bridgeUrl, keyFile, io.signal, '/v1')

export const labelOption = {
  type: 'string',
  array: true,
  nargs: 1,
  describe: 'only devices with this label, key=value; again for more that must all be there',
} as const

/** @throws BrimError USAGE */
export function matcherOf(labels: readonly string[] = []): (device: { labels: Readonly<Record<string, string>> }) => boolean {
  const wanted = labels.map((label) => {
    const [key = '', value, ...rest] = label.split('=')
    if (key === '' || value === undefined || value === '' || rest.length > 0)
      throw new BrimError('USAGE', `--label ${label} is not of the form key=value`, { hint: 'for example --label site=lab' })
    return [key, value] as const
  })
  return (device) => wanted.every(([key, value]) => device.labels[key] === value)
}

export const labelsText = (labels: Readonly<Record<string, string>>): string =>
  Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(' ')
