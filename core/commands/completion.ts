import { z } from 'zod'
import type { Command, Menu } from '../kit/cli/command.ts'
import { defineCommand } from '../kit/cli/command.ts'
import { completionScript, completionsOf, shells } from '../kit/cli/completion.ts'

/** `brim completion <shell>` @param menu every command */
export const completionCommand = (menu: Menu): Command =>
  defineCommand({
    examples: [
      ['source <(brim completion bash)', 'bash: in ~/.bashrc'],
      ['source <(brim completion zsh)', 'zsh: in ~/.zshrc, after compinit'],
      ['brim completion fish > ~/.config/fish/completions/brim.fish', 'fish'],
    ],
    notes: 'The script completes commands, options and their values without starting Brim. Create it again after an update.',
    options: { shell: z.enum(shells).describe('shell that runs the script') },
    async run({ shell }, io) {
      io.out(completionScript(shell, await completionsOf(menu)))
    },
  })
