import { z } from 'zod'
import { visibleLine } from '../../../core/base/visible-text.ts'
import { defineCommand } from '../../../core/cli/command.ts'
import { type JobSummary, jobOperations, jobStates } from '../../../core/protocol/http/jobs.ts'
import { jobKinds } from '../../../core/protocol/jobs.ts'
import { bridgeClient, bridgeOptions } from '../bridge-access.ts'
import { failureText } from './job.ts'

export const command = defineCommand({
  examples: [
    ['brim job list --state RUNNING', 'jobs that devices run now'],
    ['brim job list --dead --json | jq .jobs[].error', 'why jobs failed'],
  ],
  options: {
    state: z.enum(jobStates).describe('only jobs in this state').optional(),
    kind: z.enum(jobKinds).describe('only jobs of this kind').optional(),
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
    for (const job of jobs) io.out(visibleLine(lineOf(job)))
  },
})

const lineOf = ({ id, kind, state, attempt, device, submittedAt, error }: JobSummary) =>
  [
    id.padEnd(16),
    kind.padEnd(14),
    state.padEnd(9),
    submittedAt,
    `attempt ${attempt}`,
    device ?? '',
    error ? failureText(error) : '',
  ]
    .join('  ')
    .trimEnd()
