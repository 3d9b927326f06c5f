import { z } from 'zod'
import { BrimError } from '../../core/kit/base/errors.ts'
import { visibleLine } from '../../core/kit/base/visible-text.ts'
import { deviceOperations } from '../../core/wire/protocol/http/devices.ts'
import type { BridgeClient, Received } from './bridge-client.ts'

export const labelOption = z.array(z.string()).optional().meta({
  description: 'only devices with this label, key=value; repeat it for devices that have all of them',
  fallback: 'all devices',
})

/** @throws BrimError USAGE */
export const labelPairs = (labels: readonly string[]): (readonly [key: string, value: string])[] =>
  labels.map((label) => {
    const [key = '', value, ...rest] = label.split('=')
    if (key === '' || value === undefined || value === '' || rest.length > 0)
      throw new BrimError('USAGE', `--label ${label} is not of the form key=value`, { hint: 'for example --label site=lab' })
    return [key, value] as const
  })

/** @throws BrimError USAGE */
export function matcherOf(labels: readonly string[] = []): (device: { labels: Readonly<Record<string, string>> }) => boolean {
  const pairs = labelPairs(labels)
  return (device) => pairs.every(([key, value]) => device.labels[key] === value)
}

/** The names of the devices that have all these labels. @throws BrimError USAGE, DEVICE_UNKNOWN where there is none */
export async function devicesWith(client: BridgeClient, labels: readonly string[]): Promise<string[]> {
  const matches = matcherOf(labels)
  const { devices } = (await client.call(deviceOperations.list, {})).value
  const found = devices.filter((device) => matches(device) && device.identity?.status !== 'revoked')
  if (found.length > 0) return found.map(({ id }) => id)
  throw new BrimError('DEVICE_UNKNOWN', `no device has the label ${labels.join(' and ')}`, {
    hint: '"brim device list" shows the labels of each',
  })
}

interface Labelled {
  readonly id: string
  readonly labels: Readonly<Record<string, string>>
}

/** Of a response, the devices that have all these labels. @throws BrimError USAGE */
export function withLabels<T extends { readonly devices: readonly Labelled[] }>(
  received: Received<T>,
  labels: readonly string[] = [],
): Received<T> {
  if (labels.length === 0) return received
  const { raw, value } = received
  const devices = value.devices.filter(matcherOf(labels))
  const ids = new Set(devices.map(({ id }) => id))
  const document = raw as { readonly devices: readonly { readonly id: string }[] }
  return { raw: { ...document, devices: document.devices.filter(({ id }) => ids.has(id)) }, value: { ...value, devices } }
}

export const labelsText = (labels: Readonly<Record<string, string>>): string =>
  Object.entries(labels)
    .map(([key, value]) => visibleLine(`${key}=${value}`))
    .join(' ')
