import { z } from 'zod'
import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import { columns } from '../../../core/kit/cli/columns.ts'
import { defineCommand, type Menu } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { jobOperations, jobStates } from '../../../core/wire/protocol/http/jobs.ts'
import { jobKinds } from '../../../core/wire/protocol/jobs.ts'
import { bridgeClient } from '../bridge-client.ts'
import { bridgeCommand } from '../request-command.ts'
import { followJob } from './follow.ts'
import { failureText, idOption } from './job.ts'

const list = bridgeCommand({
  examples: [
    ['brim job list --state RUNNING', 'jobs that devices run now'],
    ['brim job list --dead --json | jq .jobs[].error', 'why jobs failed'],
  ],
  notes: 'DEVICE: that of the latest attempt, else the only device that may run the job.',
  options: {
    state: z.enum(jobStates).optional().meta({ description: 'only jobs in this state', fallback: 'all' }),
    kind: z.enum(jobKinds).optional().meta({ description: 'only jobs of this kind', fallback: 'all' }),
    dead: z.boolean().default(false).describe('only jobs that are FAILED, REJECTED or TIMED_OUT'),
    limit: z.int().min(1).default(20).describe('max jobs'),
  },
  request: (client, { limit, state, kind, dead }) =>
    client.call(jobOperations.list, { query: { limit, state, kind, dead: dead ? 'true' : undefined } }),
  text({ jobs }) {
    if (jobs.length === 0) return { note: 'no matching jobs' }
    const rows = jobs.map(({ id, kind, state, attempt, device, lastDevice, boundTo, submittedAt, error }) => {
      const place = device ?? lastDevice ?? boundTo ?? '-'
      return [id, kind, state, String(attempt), place, submittedAt, error ? failureText(error) : '']
    })
    return columns([['JOB', 'KIND', 'STATE', 'ATTEMPT', 'DEVICE', 'SUBMITTED', 'ERROR'], ...rows])
  },
})

const watch = defineCommand({
  examples: [['brim job watch 3f9a1c07-42', 'its text on stdout, its history on stderr']],
  options: { id: idOption, ...bridgeOptions },
  run: async ({ id, json, ...options }, io) => followJob(await bridgeClient(options, io), id, json, io),
})

const cancel = bridgeCommand({
  examples: [['brim job cancel 3f9a1c07-42', 'queued or running']],
  options: { id: idOption },
  request: (client, { id }) => client.call(jobOperations.cancel, { params: { id } }),
  text: ({ canceled, state }, { id }) =>
    canceled ? `job ${id} is canceled` : `job ${id} had already ended: ${visibleLine(state)}`,
})

const retry = bridgeCommand({
  examples: [['brim job retry 3f9a1c07-42', 'prints the id of the new job']],
  options: { id: idOption },
  request: (client, { id }) => client.call(jobOperations.retry, { params: { id } }),
  text: ({ id }) => visibleLine(id),
})

/** `brim job …` */
export const menu: Menu = {
  examples: [
    ['brim job submit slm.generate --prompt "What is a lamp?" --watch', 'on any device with a small model'],
    ['brim job list --dead', 'jobs that failed'],
  ],
  commands: {
    'submit <kind>': ['queue a job; the bridge can read its text', () => import('./submit.ts')],
    list: ['list the latest jobs', () => ({ command: list })],
    'show <id>': ['show a job: input, result and history', () => import('./show.ts')],
    'watch <id>': ['follow a job to its end; its text on stdout', () => ({ command: watch })],
    'cancel <id>': ['cancel a job; a device that runs it stops', () => ({ command: cancel })],
    'retry <id>': ['submit the same work as a new job', () => ({ command: retry })],
  },
}
