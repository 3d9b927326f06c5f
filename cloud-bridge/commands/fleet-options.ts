import { BrimError } from '../../core/base/errors.ts'
import type { BridgeOptions } from './bridge-access.ts'

/** Of commands that ask a bridge by HTTP. */
export interface AtBridge extends BridgeOptions {
  json?: boolean | undefined
}

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
