import { z } from 'zod'
import type { Io } from '../../../core/kit/base/io.ts'
import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import { defineCommand, type OptionsOf } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { rolloutOperations } from '../../../core/wire/protocol/http/rollouts.ts'
import { bridgeClient } from '../bridge-client.ts'
import { contentInputOf, contentKinds, contentOptions } from './content.ts'
import { showNew } from './follow.ts'
import { paceOf, paceOptions, selectorOf, selectorOptions } from './selection.ts'

const options = {
  what: z.enum(['bundle', 'config', 'software']).describe('what the devices get'),
  ...contentOptions,
  ...selectorOptions,
  ...paceOptions,
  dryRun: z.boolean().default(false).describe('only list the devices, in the order in which they would start'),
  watch: z.boolean().default(false).describe('follow the rollout to its end; exit code 1 where devices did not succeed'),
  ...bridgeOptions,
}

export const command = defineCommand({
  usage: 'bundle --model <bundle> | config --set <name=value> | software --archive <file>',
  examples: [
    ['brim rollout create bundle --model qwen --label site=lab --watch', 'on every device with the label'],
    [
      'brim rollout create bundle --model qwen --module "Orin NX" --first 5 --pause-after-first',
      'five, then on "resume" the others',
    ],
    ['brim rollout create config --set heartbeat=30 --group north --rate 60/min --growth 4', 'configuration, faster and faster'],
    ['brim rollout create software --archive brim-0.3.0-linux-arm64.tar.gz --agent-version "<0.3.0"', 'uploads it first'],
    ['brim rollout create config --reset --all --dry-run', 'which devices would it be?'],
  ],
  notes:
    'Devices that are connected start first. A device has succeeded once it has verified what it got and answered --probe with it;\n' +
    'otherwise it returns to what it had before. docs/rollouts.md describes the rest.',
  options,
  run: create,
})

async function create(given: OptionsOf<typeof options>, io: Io): Promise<void> {
  const { what, dryRun, json } = given
  const [selector, pace] = [selectorOf(given), paceOf(given)]
  const client = await bridgeClient(given, io)
  const body = { kind: contentKinds[what], input: await contentInputOf(what, given, client, io), selector, pace, dryRun }
  const { raw, value } = await client.call(rolloutOperations.create, { body })
  const { rollout, devices } = value
  if (rollout !== null) return showNew(client, { raw, id: rollout.id, devices: devices.length }, given, io)
  if (json) io.out(JSON.stringify(raw))
  else if (devices.length === 0) io.err('no matching devices')
  else io.out(devices.map(visibleLine).join('\n'))
}
