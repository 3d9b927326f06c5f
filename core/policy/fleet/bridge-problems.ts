import type { ShownComputing } from '../../wire/protocol/computing.ts'
import type { BridgeProblem } from '../../wire/protocol/http/devices.ts'

export interface BridgeHealth {
  /** Why its disk stores nothing; undefined: it does. */
  readonly storageFailure: string | undefined
  /** Why the database that it shares stores nothing; undefined: it does, or there is none. */
  readonly databaseFailure?: string | undefined
  /** Jobs that were set aside. */
  readonly damagedJobs: number
  /** Of its models. */
  readonly computing: readonly ShownComputing[]
  /** Why servers that answer for it get no requests. */
  readonly upstreamProblems: readonly string[]
}

/** Where the provider of a GPU has failed, at a bridge or a device. */
export const gpuFix = 'brim doctor; another driver or ONNX Runtime is tried at the next start, and --provider cpu leaves it so'

/** The most severe first. */
export function bridgeProblemsOf({
  storageFailure,
  databaseFailure,
  damagedJobs,
  computing,
  upstreamProblems,
}: BridgeHealth): BridgeProblem[] {
  const problems: BridgeProblem[] = []
  if (storageFailure !== undefined)
    problems.push({
      kind: 'storage-full',
      detail: `the bridge stores nothing: ${storageFailure}`,
      fix: 'free space on the disk of its state folder; it goes on by itself',
    })
  if (databaseFailure !== undefined)
    problems.push({
      kind: 'database',
      detail: `the bridge confirms nothing: ${databaseFailure}`,
      fix: 'start PostgreSQL, or free space on its disk; the bridge goes on by itself',
    })
  if (damagedJobs > 0)
    problems.push({
      kind: 'damaged-jobs',
      detail: `${damagedJobs} ${damagedJobs === 1 ? 'job was' : 'jobs were'} damaged in jobs.sqlite and set aside as FAILED`,
      fix: 'brim job list --dead, then submit them again; check the disk',
    })
  const failed = computing.find((shown) => shown.failed === true)
  if (failed) problems.push({ kind: 'gpu', detail: `the CPU computes: ${failed.reason}`, fix: gpuFix })
  for (const detail of upstreamProblems)
    problems.push({
      kind: 'upstream',
      detail,
      fix: 'start it, or compare address and key with --upstream of "brim bridge config show"; it gets requests again by itself',
    })
  return problems
}
