import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import type { Menu } from '../../../core/kit/cli/command.ts'
import { adminOperations } from '../../../core/wire/protocol/http/admin.ts'
import { deviceOperations } from '../../../core/wire/protocol/http/devices.ts'
import { adminCommand, bridgeCommand } from '../request-command.ts'
import { deviceOption } from './remote-command.ts'

const approve = adminCommand({
  examples: [['brim device approve jetson-01', 'after it has enrolled with a token that needs approval']],
  options: { device: deviceOption },
  request: (client, { device }) => client.call(adminOperations.approveDevice, { params: { id: device } }),
  text: (_, { device }) => `device ${device} approved`,
})

const revoke = adminCommand({
  examples: [['brim device revoke jetson-01', 'for a device that is lost or stolen']],
  options: { device: deviceOption },
  request: (client, { device }) => client.call(adminOperations.revokeDevice, { params: { id: device } }),
  text: (_, { device }) => `device ${device} revoked`,
})

const remove = bridgeCommand({
  examples: [['brim device remove jetson-01', 'after its agent was stopped, or the device revoked']],
  notes: 'Its key never enrols again: on a device that comes back, run "brim agent reset-identity" and enrol it anew.',
  options: { device: deviceOption },
  request: (client, { device }) => client.call(deviceOperations.remove, { params: { id: device } }),
  text({ canceledJobs }, { device }) {
    const canceled = canceledJobs === 0 ? '' : `; ${canceledJobs} of its jobs canceled`
    return visibleLine(`device ${device} removed${canceled}`)
  },
})

/** `brim device …` */
export const menu: Menu = {
  examples: [
    ['brim device list', 'connected and enrolled devices, and those that wait for approval'],
    ['brim device show jetson-01', 'everything known about one device'],
    ['brim device drain jetson-01 --wait', 'no new jobs; returns when its last job has ended'],
    ['brim device approve jetson-01', 'it may connect from now on'],
    ['brim device revoke jetson-01', 'disconnected within 5 s'],
  ],
  commands: {
    list: ['list devices with their state, enrolment and labels', () => import('./list.ts')],
    'show <device>': ['show a device: state, identity, labels, condition, jobs, commands, log', () => import('./show.ts')],
    'watch [device]': ['stream state, telemetry and commands of one device or all', () => import('./watch.ts')],
    'logs <device>': ["show a device's log: warnings and errors; with --follow more", () => import('./logs.ts')],
    'drain [device]': [
      'stop dispatching jobs to a device; it finishes those it has',
      async () => ({ command: (await import('./drain.ts')).drain }),
    ],
    'undrain [device]': [
      'dispatch jobs to a drained device again',
      async () => ({ command: (await import('./drain.ts')).undrain }),
    ],
    'label <device> [changes..]': ["set, remove or show a device's labels", () => import('./label.ts')],
    'approve <device>': [
      'let an enrolled device connect; its recorded hardware and the expiry of its key are reset',
      () => ({ command: approve }),
    ],
    'remove <device>': [
      'delete a device that is gone: enrolment, labels, telemetry; cancels its jobs',
      () => ({ command: remove }),
    ],
    'revoke <device>': ['disconnect a device within 5 s and reject it from then on', () => ({ command: revoke })],
  },
}
