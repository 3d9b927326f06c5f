import type { CommandModule } from 'yargs'
import { BrimError } from '../../core/base/errors.ts'
import type { Io } from '../../core/base/io.ts'
import type { Administration } from '../identity/administration.ts'
import type { DeviceIdentity } from '../identity/rules.ts'
import { type AdministrationOptions, administer, administrationOptions } from './administration.ts'
import { bridgeClient, bridgeOptions } from './bridge-access.ts'
import { columns } from './columns.ts'
import { drainCommand, undrainCommand } from './device-drain.ts'
import { labelCommand } from './device-label.ts'
import { logsCommand } from './device-logs.ts'
import { showCommand } from './device-show.ts'
import { watchCommand } from './device-watch.ts'
import { age, printable } from './figures.ts'
import { labelOption, labelsText, matcherOf } from './fleet-options.ts'
import { readDevices } from './order.ts'

interface DeviceOptions extends AdministrationOptions {
  json?: boolean | undefined
}

/** `brim device …` */
export function deviceCommand(io: Io): CommandModule {
  return {
    command: 'device <verb>',
    describe: "a bridge's devices: who they are, how they fare, what they shall do",
    builder: (yargs) =>
      yargs
        .usage('Usage: brim device <verb> [options]')
        .example('brim device list', 'who is there, who is enrolled, and who waits for approval')
        .example('brim device show jetson-01', 'all that is known of one')
        .example('brim device drain jetson-01 --wait', 'no new jobs; returns once it has finished those that it has')
        .example('brim device approve jetson-01', 'it may connect from now on')
        .example('brim device revoke jetson-01', 'cut off within seconds')
        .command(listCommand(io))
        .command(showCommand(io))
        .command(watchCommand(io))
        .command(logsCommand(io))
        .command(drainCommand(io))
        .command(undrainCommand(io))
        .command(labelCommand(io))
        .command(
          changeCommand(io, {
            verb: 'approve',
            describe: 'let a device in; what was known of its hardware is forgotten, the next that connects is it',
            change: (admin, device) => admin.approve(device),
            done: (device) => `device ${device} approved`,
          }),
        )
        .command(
          changeCommand(io, {
            verb: 'revoke',
            describe: 'cut a device off within 5 s, and keep it out',
            change: (admin, device) => admin.revoke(device),
            done: (device) => `device ${device} revoked`,
          }),
        )
        .demandCommand(1, 'say what to do with devices: brim device --help'),
    handler: () => {},
  }
}

interface ListOptions extends DeviceOptions {
  label?: string[] | undefined
}

function listCommand(io: Io): CommandModule<object, ListOptions> {
  return {
    command: 'list',
    describe: 'who is there and who is enrolled; with --state-dir who is enrolled, and on which machine',
    builder: (yargs) =>
      yargs
        .usage('Usage: brim device list [options]')
        .example('brim device list --label site=lab', 'a part of the fleet')
        .example('brim device list --json', 'as one JSON document')
        .options(bridgeOptions)
        .option('label', labelOption)
        .option('state-dir', { type: 'string', describe: "a bridge's folder: its database is read, whether it runs or not" }),
    handler: (options) => (options.stateDir === undefined ? listAtBridge(options, io) : listEnrolled(options, io)),
  }
}

async function listAtBridge(options: ListOptions, io: Io): Promise<void> {
  const devices = (await readDevices(await bridgeClient(options, io))).filter(matcherOf(options.label))
  if (options.json) return io.out(JSON.stringify({ devices }))
  if (devices.length === 0) return io.err('no such devices')
  const rows = devices.map(({ id, state, seenS, identity, labels }) =>
    [id, state ?? 'never', age(seenS), identity?.group ?? '-', identity?.status ?? '-', labelsText(labels)].map(printable),
  )
  io.out(columns([['DEVICE', 'STATE', 'SEEN', 'GROUP', 'STATUS', 'LABELS'], ...rows]))
}

async function listEnrolled({ label, json, ...options }: ListOptions, io: Io): Promise<void> {
  if (label !== undefined)
    throw new BrimError('USAGE', '--label asks a running bridge: it does not go with --state-dir', { hint: 'give one of them' })
  const devices = await administer(options, io, (admin) => admin.devices())
  if (json) return io.out(JSON.stringify({ devices }))
  const rows = devices.map(({ device, group, status, enrolledAt, hardware, clone }) => {
    const machine = clone === null ? (hardware ?? '-') : `${hardware}; also used by ${clone}: a cloned image`
    return [device, group, status, enrolledAt, machine]
  })
  io.out(columns([['DEVICE', 'GROUP', 'STATUS', 'ENROLLED', 'MACHINE'], ...rows]))
}

interface Change {
  readonly verb: string
  readonly describe: string
  change(admin: Administration, device: string): Promise<DeviceIdentity>
  done(device: string): string
}

function changeCommand(
  io: Io,
  { verb, describe, change, done }: Change,
): CommandModule<object, DeviceOptions & { device: string }> {
  return {
    command: `${verb} <device>`,
    describe,
    builder: (yargs) =>
      yargs
        .usage(`Usage: brim device ${verb} <device> [options]`)
        .example(`brim device ${verb} jetson-01`, describe)
        .positional('device', { type: 'string', demandOption: true, describe: 'its name in the list' })
        .options(administrationOptions),
    handler: async ({ json, device, ...options }) => {
      const changed = await administer(options, io, (admin) => change(admin, device))
      io.out(json ? JSON.stringify(changed) : done(device))
    },
  }
}
