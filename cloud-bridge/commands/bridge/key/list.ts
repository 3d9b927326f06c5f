import { defineCommand } from '../../../../core/kit/cli/command.ts'
import { administer, administrationOptions } from '../../administration.ts'
import { columns } from '../../columns.ts'

export const command = defineCommand({
  examples: [['brim bridge key list', 'names, roles and quotas']],
  options: administrationOptions,
  async run({ json, ...options }, io) {
    const keys = await administer(options, io, (admin) => admin.keys())
    if (json) return io.out(JSON.stringify({ keys }))
    const rows = keys.map(({ id, name, role, requestsPerMinute, jobsPerDay, createdAt, expiresAt, revokedAt }) => {
      const quota = [requestsPerMinute, jobsPerDay].map((limit) => String(limit ?? '-'))
      return [id, name, role, ...quota, createdAt, expiresAt ?? '-', revokedAt ?? '-']
    })
    io.out(columns([['KEY', 'NAME', 'ROLE', 'REQUESTS/MIN', 'JOBS/DAY', 'CREATED', 'EXPIRES', 'REVOKED'], ...rows]))
  },
})
