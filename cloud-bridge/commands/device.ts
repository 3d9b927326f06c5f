import type { CommandModule } from 'yargs'
import { BrimError } from '../../core/base/errors.ts'
import type { Io } from '../../core/base/io.ts'
import type { IdentityStore } from '../identity/store.ts'
import { columns, operatorOf, stateDirOption, withIdentities } from './with-identities.ts'

interface DeviceOptions {
  stateDir?: string | undefined
  json?: boolean | undefined
}

/** `brim device …` */
export function deviceCommand(io: Io): CommandModule {
  return {
    command: 'device <verb>',
    describe: "the devices enrolled at this machine's bridge: list, approve, revoke",
    builder: (yargs) =>
      yargs
        .example('brim device list', 'who is enrolled, and who waits for approval')
        .example('brim device approve jetson-01', 'it may connect from now on')
        .example('brim device revoke jetson-01', 'cut off within seconds')
        .command(listCommand(io))
        .command(
          changeCommand(io, {
            verb: 'approve',
            describe: 'let a device in; what was known of its hardware is forgotten, the next that connects is it',
            change: (store, actor, device) => store.approve(actor, device),
            done: (device) => `device ${device} approved`,
          }),
        )
        .command(
          changeCommand(io, {
            verb: 'revoke',
            describe: 'cut a device off within 5 s, and keep it out',
            change: (store, actor, device) => store.revoke(actor, device),
            done: (device) => `device ${device} revoked`,
          }),
        )
        .demandCommand(1, 'say what to do with devices: brim device --help'),
    handler: () => {},
  }
}

function listCommand(io: Io): CommandModule<object, DeviceOptions> {
  return {
    command: 'list',
    describe: 'who is enrolled, and on which machine',
    builder: (yargs) => yargs.example('brim device list --json', 'as one JSON document').option('state-dir', stateDirOption),
    handler: ({ stateDir, json }) => {
      const devices = withIdentities(stateDir, io, (store) => store.devices())
      if (json) return io.out(JSON.stringify({ devices }))
      const rows = devices.map(({ device, group, status, enrolledAt, hardware, clone }) => {
        const machine = clone === null ? (hardware ?? '-') : `${hardware}; also used by ${clone}: a cloned image`
        return [device, group, status, enrolledAt, machine]
      })
      io.out(columns([['DEVICE', 'GROUP', 'STATUS', 'ENROLLED', 'MACHINE'], ...rows]))
    },
  }
}

interface Change {
  readonly verb: string
  readonly describe: string
  /** @returns whether there is such a device */
  change(store: IdentityStore, actor: string, device: string): boolean
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
        .positional('device', { type: 'string', demandOption: true, describe: 'its name in the list' })
        .option('state-dir', stateDirOption),
    handler: ({ stateDir, json, device }) => {
      const changed = withIdentities(stateDir, io, (store) => {
        if (!change(store, operatorOf(io), device))
          throw new BrimError('IDENTITY_UNKNOWN', `no device "${device}" is enrolled`, { hint: '"brim device list" names them' })
        return store.device(device)
      })
      io.out(json ? JSON.stringify(changed) : done(device))
    },
  }
}
