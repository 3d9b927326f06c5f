import { execFileSync } from 'node:child_process'
import { cpus, loadavg, totalmem } from 'node:os'
import { projectRoot, version } from '../../../core/base/version.ts'

/** The machine and the code that a benchmark runs on. */
export function machineConditions(): Record<string, unknown> {
  const [cpu] = cpus()
  return {
    brim: version,
    commit: currentCommit(),
    node: process.versions.node,
    platform: `${process.platform} ${process.arch}`,
    cpu: cpu?.model ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
  }
}

/** Of the last minute. */
export const loadAverage = (): number => loadavg()[0] ?? 0

/** Null where this is no checkout, or git is missing. */
function currentCommit(): string | null {
  try {
    const git = ['rev-parse', '--short', 'HEAD']
    return execFileSync('git', git, { cwd: projectRoot, stdio: ['ignore', 'pipe', 'ignore'], encoding: 'utf8' }).trim()
  } catch {
    return null
  }
}
