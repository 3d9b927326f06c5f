import { styleText } from 'node:util'
import { z } from 'zod'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import { columns } from '../../../core/kit/cli/columns.ts'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { bridgeFacts, type UnusedReason, whyUnused } from '../../../core/policy/fleet/unused.ts'
import { fleetOperations } from '../../../core/wire/protocol/http/devices.ts'
import { bridgeClient } from '../bridge-client.ts'
import { labelOption, withLabels } from '../labels.ts'

export const command = defineCommand({
  examples: [
    ['brim fleet doctor', 'one line per reason, with the command that fixes it'],
    ['brim fleet doctor --device jetson-01', 'one device'],
    ['brim fleet doctor --json | jq ".devices[] | select(.used | not)"', 'for programs'],
  ],
  notes:
    '"!": the device gets nothing to do; otherwise it gets less, or does it worse. "on it": run the command on the device.\n' +
    'Times are compared by the clock of this machine.',
  options: {
    device: z.array(z.string()).optional().meta({ description: 'only this device; may be repeated', fallback: 'all devices' }),
    label: labelOption,
    ...bridgeOptions,
  },
  async run({ device: names, label, json, ...options }, io) {
    const client = await bridgeClient(options, io)
    const { value: status } = withLabels(await client.call(fleetOperations.status, {}), label)
    const unknown = names?.find((name) => !status.devices.some(({ id }) => id === name))
    if (unknown !== undefined)
      throw new BrimError('DEVICE_UNKNOWN', `no device "${unknown}"`, { hint: '"brim device list" lists them' })
    const facts = bridgeFacts(status, Date.now())
    const devices = status.devices
      .filter(({ id }) => names === undefined || names.includes(id))
      .map((device) => {
        const reasons = whyUnused(device, facts)
        return { id: device.id, used: !reasons.some(({ blocks }) => blocks), reasons }
      })
    if (json)
      return io.out(JSON.stringify({ bridge: status.bridge, version: status.version, problems: status.problems, devices }))
    const used = devices.filter((device) => device.used).length
    const inColour = io.outIsTty && !io.env.NO_COLOR
    io.out(`${used} of ${devices.length} ${devices.length === 1 ? 'device' : 'devices'} used`)
    for (const { kind, detail, fix } of status.problems) {
      const text = visibleLine(`! bridge ${status.bridge}  ${kind}  ${detail}  →  ${fix}`)
      io.raw.out(`${inColour ? styleText('red', text, { validateStream: false }) : text}\n`)
    }
    const found = devices.flatMap(({ id, reasons }) => reasons.map((reason) => ({ id, ...reason })))
    const lines = columns(found.map(({ id, ...reason }) => rowOf(id, reason))).split('\n')
    for (const [i, { blocks }] of found.entries()) {
      const text = visibleLine(lines[i] ?? '')
      io.raw.out(`${inColour ? styleText(blocks ? 'red' : 'yellow', text, { validateStream: false }) : text}\n`)
    }
  },
})

const rowOf = (id: string, { kind, blocks, detail, fix, at }: UnusedReason): string[] => [
  blocks ? '!' : ' ',
  id,
  kind,
  `${detail}  →  ${at === 'device' ? 'on it: ' : ''}${fix}`,
]
