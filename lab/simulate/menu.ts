import type { Menu } from '../../core/cli/command.ts'

/** `brim simulate …` */
export const menu: Menu = {
  examples: [],
  commands: {},
}
