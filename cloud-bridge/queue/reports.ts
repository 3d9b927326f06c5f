import { isFinal, type JobReport } from '../../core/policy/jobs/job.ts'
import { resultProblem } from '../../core/protocol/jobs.ts'
import type { AttemptEffect, JobDatabase, ReportedData } from './job-database.ts'
import type { JobRow } from './job-tables.ts'

/** One event of an attempt, as a device reported it. */
export interface DeviceReport extends ReportedData {
  readonly job: string
  readonly device: string
  readonly attempt: number
  readonly report: JobReport
}

export interface StoredReports {
  readonly effects: AttemptEffect[]
  /** Reports that were not stored, because an earlier event of their attempt is missing: they must not be acknowledged. */
  readonly gaps: ReadonlySet<DeviceReport>
  /** Ids of jobs that changed. */
  readonly changed: ReadonlySet<string>
}

export function createReports(db: JobDatabase) {
  return {
    /** Stores reports in one commit; repeated reports change nothing. @param nowMs wall clock */
    storeReports: (reports: readonly DeviceReport[], nowMs: number): StoredReports =>
      db.transaction(() => {
        const effects: AttemptEffect[] = []
        const gaps = new Set<DeviceReport>()
        const changed = new Set<string>()
        for (const one of reports) {
          const row = db.rowOf(one.job)
          const { attempt, device, report, n } = one
          if (!row) {
            // The job is deleted here: a broker delivered a late message, and the device started it.
            if (!isFinal(report)) effects.push({ kind: 'cancelAttempt', job: one.job, device, attempt })
            continue
          }
          if (row.holder === device && row.attempt === attempt && !isFinal(report)) {
            if (n <= row.heard_n) continue
            if (n > row.heard_n + 1) {
              gaps.add(one)
              continue
            }
          }
          const [checked, data] = checkResult(row, one)
          const applied = db.apply(row, { kind: 'report', device, attempt, report: checked }, nowMs, { data, n })
          if (applied.isChanged) changed.add(one.job)
          effects.push(...applied.effects)
        }
        return { effects, gaps, changed }
      }),
  }
}

/** The report and its data; a result that does not fit the job becomes a failure. */
function checkResult({ kind, input }: JobRow, { report, data }: DeviceReport): readonly [JobReport, DeviceReport['data']] {
  const problem = report.type === 'succeeded' ? resultProblem(kind, JSON.parse(input) as unknown, data) : undefined
  if (problem === undefined) return [report, data]
  const error = { code: 'JOB_FAILED', message: `the device's result is invalid for ${kind}: ${problem}`.slice(0, 2_000) }
  return [{ type: 'failed', failure: 'failed', error }, {}]
}
