import { z } from 'zod'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { deviceOperations, type LabelChange } from '../../../core/wire/protocol/http/devices.ts'
import { bridgeClient } from '../bridge-client.ts'
import { labelsText } from '../labels.ts'
import { deviceOption } from './remote-command.ts'

export const command = defineCommand({
  usage: '<device> [key=value | key-]...',
  examples: [
    ['brim device label jetson-01 site=lab power=solar', 'set two labels'],
    ['brim device label jetson-01 power-', 'remove one'],
    ['brim device label jetson-01', 'show them'],
  ],
  options: {
    device: deviceOption,
    changes: z.array(z.string()).default([]).describe('key=value sets a label, key- removes it'),
    ...bridgeOptions,
  },
  async run({ device, changes, json, ...options }, io) {
    const client = await bridgeClient(options, io)
    const params = { id: device }
    const { value } =
      changes.length === 0
        ? await client.call(deviceOperations.show, { params })
        : await client.call(deviceOperations.label, { params, body: parseChanges(changes) })
    const { labels } = value
    if (json) return io.out(JSON.stringify({ id: device, labels }))
    io.out(labelsText(labels) || `${device} has no labels`)
  },
})

/** @throws BrimError USAGE */
function parseChanges(changes: readonly string[]): LabelChange {
  const set: Record<string, string> = {}
  const unset: string[] = []
  for (const change of changes) {
    const [, key, value] = /^([^=]+)=(.+)$/.exec(change) ?? []
    if (key !== undefined && value !== undefined) set[key] = value
    else if (/^[^=]+-$/.test(change)) unset.push(change.slice(0, -1))
    else throw new BrimError('USAGE', `"${change}" is neither key=value nor key-`, { hint: 'for example site=lab, or site-' })
  }
  return { set, unset }
}
