import type { Menu } from '../../core/kit/cli/command.ts'

/** `brim simulate …` */
export const menu: Menu = {
  examples: [
    ['brim simulate run fleet.yaml', 'a scenario of your own'],
    ['brim simulate presets', 'GPUs, boards and models that a scenario may name'],
  ],
  commands: {
    'run <file>': ['run a scenario file, or every combination of its sweep', () => import('./commands/run.ts')],
    presets: ['GPUs, boards and models that scenarios name, with their sources', () => import('./commands/presets.ts')],
    'calibrate <file>': ['the cost model of a machine from measured steps', () => import('./commands/calibrate.ts')],
    validate: ['how well the simulator predicts the live benchmarks', () => import('../bench/validation/bench.ts')],
    'what-if <trace>': [
      'which policy and settings suit a trace and hardware, as configuration files',
      () => import('./commands/what-if.ts'),
    ],
    fleet: [
      'a fleet of 1,000 devices: all four methods together, each alone, cloud only and device only',
      () => import('./fleet/bench.ts'),
    ],
    scale: ['up to 100,000 devices and 10,000 requests per second: bridges, GPUs and bytes', () => import('./scale/bench.ts')],
    paper: ['tables and figures of the papers, simulated', () => import('./paper/menu.ts')],
    'replay <file>': ['whether the present code decides as a recorded agent or bridge did', () => import('./commands/replay.ts')],
    schema: ['JSON schema of scenario files, with which editors complete them', () => import('./commands/schema.ts')],
  },
}
