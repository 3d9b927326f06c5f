import type { Menu } from '../kit/cli/command.ts'

/** `brim privacy …` */
export const menu: Menu = {
  examples: [['brim privacy audit qwen --prompts prompts.jsonl', 'what a bridge could read of these prompts']],
  commands: {
    'audit <bundle>': [
      'attack what a bridge gets of private answers, and show how much is recovered',
      () => import('./privacy-audit.ts'),
    ],
  },
}
