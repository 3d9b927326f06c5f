import type { Menu } from '../../../core/kit/cli/command.ts'

/** `brim simulate paper …` */
export const menu: Menu = {
  examples: [['brim simulate paper disco --quick', "DiSCo's tables and figures, in two minutes"]],
  commands: {
    pice: ['PICE: Table III, Figs. 6, 12, 13 and 14', () => import('./pice/bench.ts')],
    hat: ['HAT: Tables IV and V, Figs. 6 to 12', () => import('./hat/bench.ts')],
    disco: ['DiSCo: Tables 2 and 3, Figs. 6, 7 and 9', () => import('./disco/bench.ts')],
    tokenflow: ['TokenFlow: Table 2, Figs. 12 to 17 and 20 to 23', () => import('./tokenflow/bench.ts')],
  },
}
