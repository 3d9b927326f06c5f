import { z } from 'zod'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { type JobSummary, jobOperations, jobStates } from '../../../core/wire/protocol/http/jobs.ts'
import { jobKinds } from '../../../core/wire/protocol/jobs.ts'
import { bridgeClient } from '../bridge-client.ts'
import { columns } from '../columns.ts'
import { failureText } from './job.ts'

export const command = defineCommand({
  examples: [
    ['brim job list --state RUNNING', 'jobs that devices run now'],
    ['brim job list --dead --json | jq .jobs[].error', 'why jobs failed'],
  ],
  notes: 'DEVICE: that of the latest attempt, else the only device that may run the job.',
  options: {
    state: z.enum(jobStates).meta({ description: 'only jobs in this state', fallback: 'all' }).optional(),
    kind: z.enum(jobKinds).meta({ description: 'only jobs of this kind', fallback: 'all' }).optional(),
    dead: z.boolean().default(false).describe('only jobs that are FAILED, REJECTED or TIMED_OUT'),
    limit: z.int().min(1).default(20).describe('max jobs'),
    ...bridgeOptions,
  },
  async run({ json, state, kind, dead, limit, ...options }, io) {
    const query = { limit, state, kind, dead: dead ? 'true' : undefined }
    const { raw, value } = await (await bridgeClient(options, io)).call(jobOperations.list, { query })
    if (json) return io.out(JSON.stringify(raw))
    const { jobs } = value
    if (jobs.length === 0) return io.err('no matching jobs')
    io.out(columns([['JOB', 'KIND', 'STATE', 'ATTEMPT', 'DEVICE', 'SUBMITTED', 'ERROR'], ...jobs.map(rowOf)]))
  },
})

const rowOf = ({ id, kind, state, attempt, device, lastDevice, boundTo, submittedAt, error }: JobSummary): string[] => [
  id,
  kind,
  state,
  String(attempt),
  device ?? lastDevice ?? boundTo ?? '-',
  submittedAt,
  error ? failureText(error) : '',
]
