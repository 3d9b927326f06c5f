import type { Menu } from '../../../core/kit/cli/command.ts'

/** `brim rollout …` */
export const menu: Menu = {
  examples: [
    ['brim rollout create bundle --model qwen --label site=lab --watch', 'install a model on a part of the fleet'],
    ['brim rollout status', 'how far the latest rollout is'],
  ],
  commands: {
    'create <what>': ['install a bundle, configuration or software on devices, a few at a time', () => import('./create.ts')],
    'status [id]': ['show how far a rollout is; default: the latest', () => import('./status.ts')],
    list: ['list the latest rollouts', () => import('./list.ts')],
    'pause <id>': ['start no further devices', () => import('./pause.ts')],
    'resume <id>': ['go on; also past the first group once it has ended', () => import('./resume.ts')],
    'retry <id>': ['begin another rollout of the same, for the devices that failed', () => import('./retry.ts')],
    'abort <id>': ['start no further devices, and cancel what runs', () => import('./abort.ts')],
  },
}
