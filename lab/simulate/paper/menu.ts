import type { Menu } from '../../../core/cli/command.ts'

/** `brim simulate paper …` */
export const menu: Menu = {
  examples: [['brim simulate paper disco --quick', "DiSCo's tables and figures, in two minutes"]],
  commands: {
    pice: ['Table III and Figs. 6, 12, 13 and 14 of PICE beside the paper', () => import('./pice/bench.ts')],
    hat: ['HAT: Tables IV and V, Figs. 6 to 12', () => import('./hat/bench.ts')],
    disco: ['Tables 2 and 3 and Figs. 6, 7 and 9 of DiSCo beside the paper', () => import('./disco/bench.ts')],
    tokenflow: ['Figs. 12 to 17 and 20 to 23 and Table 2 of TokenFlow', () => import('./tokenflow/bench.ts')],
  },
}
