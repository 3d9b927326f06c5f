/** This process's limit of open files (`ulimit -n`); Infinity where there is none. */
export function maxOpenFiles(): number {
  // Node raises the soft limit to the hard one when it starts. Its report tells the limit on every system.
  const { userLimits } = process.report.getReport() as { userLimits?: { open_files?: { soft?: number | string } } }
  const soft = userLimits?.open_files?.soft
  return typeof soft === 'number' ? soft : Number.POSITIVE_INFINITY
}
