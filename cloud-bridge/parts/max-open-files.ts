import { existsSync, readFileSync } from 'node:fs'

/** This process's limit of open files (`ulimit -n`); Infinity where there is none. */
export function maxOpenFiles(): number {
  // Node raises the soft limit to the hard one when it starts. Its report tells the limit on every system, but takes 30 ms.
  const limits = '/proc/self/limits'
  const soft = existsSync(limits) ? /^Max open files\s+(\S+)/m.exec(readFileSync(limits, 'utf8'))?.[1] : reportedLimit()
  const limit = Number(soft)
  return Number.isNaN(limit) ? Number.POSITIVE_INFINITY : limit
}

function reportedLimit(): number | string | undefined {
  const { userLimits } = process.report.getReport() as { userLimits?: { open_files?: { soft?: number | string } } }
  return userLimits?.open_files?.soft
}
