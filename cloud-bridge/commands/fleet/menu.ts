import type { Menu } from '../../../core/kit/cli/command.ts'

/** `brim fleet …` */
export const menu: Menu = {
  examples: [
    ['brim fleet status', 'the state of the bridge and every device, in 80 columns'],
    ['brim fleet doctor', 'why devices are not used'],
  ],
  commands: {
    status: ['show the bridge, its problems, and a line per device, those with problems first', () => import('./status.ts')],
    doctor: ['say why devices are not used, in a line each with the command that fixes it', () => import('./doctor.ts')],
  },
}
