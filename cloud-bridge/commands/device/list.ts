import { z } from 'zod'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { columns } from '../../../core/kit/cli/columns.ts'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { deviceWord } from '../../../core/policy/fleet/fleet-row.ts'
import { adminOperations } from '../../../core/wire/protocol/http/admin.ts'
import { deviceOperations } from '../../../core/wire/protocol/http/devices.ts'
import { type AdministrationOptions, administer } from '../administration.ts'
import { bridgeClient } from '../bridge-client.ts'
import { age } from '../figures.ts'
import { labelOption, labelsText, withLabels } from '../labels.ts'
import { cloneText, stateNotes } from './remote-command.ts'

export const command = defineCommand({
  examples: [
    ['brim device list --label site=lab', 'part of the fleet'],
    ['brim device list --json', 'as one JSON document'],
  ],
  notes: `${stateNotes}\nSEEN: time since its last message; –: none. GROUP: that of its enrolment token; -: not enrolled.`,
  options: {
    ...bridgeOptions,
    label: labelOption,
    stateDir: z.string().optional().meta({
      description: 'list enrolled devices, and the hardware of each, from the folder of a bridge on this machine',
      fallback: 'ask the bridge',
    }),
  },
  run: (options, io) => (options.stateDir === undefined ? listAtBridge(options, io) : listEnrolled(options, io)),
})

type ListOptions = AdministrationOptions & { label?: string[] | undefined; json: boolean }

async function listAtBridge(options: ListOptions, io: Io): Promise<void> {
  const client = await bridgeClient(options, io)
  const { raw, value } = withLabels(await client.call(deviceOperations.list, {}), options.label)
  if (options.json) return io.out(JSON.stringify(raw))
  const { devices } = value
  if (devices.length === 0) return io.err('no matching devices')
  const rows = devices.map((device) => {
    const { id, seenS, identity, labels } = device
    return [id, deviceWord(device), age(seenS), identity?.group ?? '-', dateOf(identity?.keyExpiresAt), labelsText(labels)]
  })
  io.out(columns([['DEVICE', 'STATE', 'SEEN', 'GROUP', 'KEY UNTIL', 'LABELS'], ...rows]))
}

async function listEnrolled({ label, json, ...options }: ListOptions, io: Io): Promise<void> {
  if (label !== undefined)
    throw new BrimError('USAGE', '--label needs a running bridge and cannot be combined with --state-dir', {
      hint: 'give one of them',
    })
  const { raw, value } = await administer(options, io, (admin) => admin.call(adminOperations.devices, {}))
  if (json) return io.out(JSON.stringify(raw))
  const rows = value.devices.map(({ device, group, status, enrolledAt, keyExpiresAt, hardware, clone }) => {
    const machine = clone === null ? (hardware ?? '-') : `${hardware}; ${cloneText(clone)}`
    return [device, status, group, enrolledAt, dateOf(keyExpiresAt), machine]
  })
  io.out(columns([['DEVICE', 'STATE', 'GROUP', 'ENROLLED', 'KEY UNTIL', 'MACHINE'], ...rows]))
}

/** Its day (UTC); `-`: never. */
const dateOf = (at: string | null | undefined): string => at?.slice(0, 10) ?? '-'
