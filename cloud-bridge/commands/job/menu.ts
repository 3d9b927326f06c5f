import type { Menu } from '../../../core/kit/cli/command.ts'

/** `brim job …` */
export const menu: Menu = {
  examples: [
    ['brim job submit slm.generate --prompt "What is a lamp?" --watch', 'on any device with a small model'],
    ['brim job list --dead', 'jobs that failed'],
  ],
  commands: {
    'submit <kind>': ['queue a job; the bridge can read its text', () => import('./submit.ts')],
    list: ['list the latest jobs', () => import('./list.ts')],
    'show <id>': ['show a job: input, result and history', () => import('./show.ts')],
    'watch <id>': ['follow a job to its end; its text on stdout', () => import('./watch.ts')],
    'cancel <id>': ['cancel a job; a device that runs it stops', () => import('./cancel.ts')],
    'retry <id>': ['submit the same work as a new job', () => import('./retry.ts')],
  },
}
