import type { CommandModule } from 'yargs'
import { z } from 'zod'
import { BrimError } from '../../core/base/errors.ts'
import type { Io } from '../../core/base/io.ts'
import { bridgeClient, bridgeOptions } from './bridge-access.ts'
import { type AtBridge, labelsText } from './fleet-options.ts'
import { devicePath } from './order.ts'

interface LabelOptions extends AtBridge {
  device: string
  changes: string[]
}

/** `brim device label` */
export function labelCommand(io: Io): CommandModule<object, LabelOptions> {
  return {
    command: 'label <device> [changes..]',
    describe: 'give a device labels, at the bridge, or take them away; without changes: show them',
    builder: (yargs) =>
      yargs
        .options(bridgeOptions)
        .usage('Usage: brim device label <device> [key=value | key-]... [options]')
        .example('brim device label jetson-01 site=lab power=solar', 'two labels')
        .example('brim device label jetson-01 power-', 'one less')
        .positional('device', { type: 'string', demandOption: true, describe: 'its name in the list' })
        .positional('changes', { type: 'string', array: true, default: [], describe: 'key=value sets, key- takes away' }),
    handler: async (options) => {
      const { device, changes, json } = options
      const client = await bridgeClient(options, io)
      const body =
        changes.length === 0
          ? await client.get(devicePath(device))
          : await client.post(devicePath(device, '/labels'), read(changes))
      const { labels } = z.looseObject({ labels: z.record(z.string(), z.string()) }).parse(body)
      if (json) return io.out(JSON.stringify({ id: device, labels }))
      io.out(labelsText(labels) || `${device} has no labels`)
    },
  }
}

/** @throws BrimError USAGE */
function read(changes: readonly string[]): { set: Record<string, string>; unset: string[] } {
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
