import type { BridgeProblem } from '../../wire/protocol/http/devices.ts'

export interface BridgeHealth {
  /** Why its disk stores nothing; undefined: it does. */
  readonly storageFailure: string | undefined
  /** Jobs that were set aside. */
  readonly damagedJobs: number
}

/** The most severe first. */
export function bridgeProblemsOf({ storageFailure, damagedJobs }: BridgeHealth): BridgeProblem[] {
  const problems: BridgeProblem[] = []
  if (storageFailure !== undefined)
    problems.push({
      kind: 'storage-full',
      detail: `the bridge stores nothing: ${storageFailure}`,
      fix: 'free space on the disk of its state folder; it goes on by itself',
    })
  if (damagedJobs > 0)
    problems.push({
      kind: 'damaged-jobs',
      detail: `${damagedJobs} ${damagedJobs === 1 ? 'job was' : 'jobs were'} damaged in jobs.sqlite and set aside as FAILED`,
      fix: 'brim job list --dead, then submit them again; check the disk',
    })
  return problems
}
