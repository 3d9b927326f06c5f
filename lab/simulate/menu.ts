import type { Menu } from '../../core/cli/command.ts'

/** `brim simulate …` */
export const menu: Menu = {
  examples: [],
  commands: {
    'calibrate <file>': ['the cost model of a machine from measured steps', () => import('./commands/calibrate.ts')],
  },
}
