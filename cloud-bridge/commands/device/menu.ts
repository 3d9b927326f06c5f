import type { Menu } from '../../../core/kit/cli/command.ts'

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
    'drain [device]': ['stop dispatching jobs to a device; it finishes those it has', () => import('./drain.ts')],
    'undrain [device]': ['dispatch jobs to a drained device again', () => import('./undrain.ts')],
    'label <device> [changes..]': ["set, remove or show a device's labels", () => import('./label.ts')],
    'approve <device>': [
      'let an enrolled device connect; its recorded hardware and the expiry of its key are reset',
      () => import('./approve.ts'),
    ],
    'remove <device>': [
      'delete a device that is gone: enrolment, labels, telemetry; cancels its jobs',
      () => import('./remove.ts'),
    ],
    'revoke <device>': ['disconnect a device within 5 s and reject it from then on', () => import('./revoke.ts')],
  },
}
