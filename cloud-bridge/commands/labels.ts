import { z } from 'zod'
import { BrimError } from '../../core/base/errors.ts'

export const labelOption = z
  .array(z.string())
  .describe('only devices with this label, key=value; repeat it for devices that have all of them')
  .optional()

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
