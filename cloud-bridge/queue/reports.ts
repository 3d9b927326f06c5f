import { storedJson } from '../../core/kit/store/stored-json.ts'
import { isFinalState, type JobReport } from '../../core/policy/jobs/job.ts'
import { judgeStorage, type StorageLimits } from '../../core/policy/jobs/stored-bytes.ts'
import { maxMessageBytes, resultProblem, sentenceProblem } from '../../core/wire/protocol/jobs.ts'
import type { DeviceUsage } from './device-usage.ts'
import type { AttemptEffect, JobDatabase, ReportedData } from './job-database.ts'
import { type JobRow, storedBytes } from './job-tables.ts'

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
  /** Jobs whose result this is. */
  readonly succeeded: readonly { readonly job: string; readonly kind: string; readonly device: string }[]
  /** Devices that have now stored as much as they may today. */
  readonly exhausted: readonly string[]
}

export interface JobReports {
  /** Stores reports in one commit; repeated reports change nothing. @param nowMs wall clock */
  storeReports(reports: readonly DeviceReport[], nowMs: number): StoredReports
}

export function createReports(db: JobDatabase, usage: DeviceUsage): JobReports {
  function storeAll(reports: readonly DeviceReport[], nowMs: number): StoredReports {
    const effects: AttemptEffect[] = []
    const gaps = new Set<DeviceReport>()
    const exhausted: string[] = []
    const succeeded: { job: string; kind: string; device: string }[] = []
    for (const one of reports) {
      const row = db.rowOf(one.job)
      const { attempt, device, report, n } = one
      if (!row) {
        // The job is deleted here: a broker delivered a late message, and the device started it.
        if (!isFinalState(report)) effects.push({ kind: 'cancelAttempt', job: one.job, device, attempt })
        continue
      }
      const isCurrent = row.holder === device && row.attempt === attempt
      if (isCurrent && !isFinalState(report)) {
        if (n <= row.heard_n) continue
        if (n > row.heard_n + 1) {
          gaps.add(one)
          continue
        }
      }
      const needsInput = isFinalState(report) || 'sentence' in one.data
      if (needsInput && storedJson(row.input) === undefined) {
        effects.push(...db.setAside(row, nowMs).effects)
        continue
      }
      const checked = isFinalState(report) ? checkResult(row, one) : isCurrent ? checkEvent(row, one, nowMs) : one
      const input = { kind: 'report', device, attempt, report: checked.report } as const
      const applied = db.apply(row, input, nowMs, checked)
      if (applied.isChanged && checked.report.type === 'succeeded') succeeded.push({ job: one.job, kind: row.kind, device })
      if (applied.bytes > 0 && usage.add(device, applied.bytes, nowMs)) exhausted.push(device)
      effects.push(...applied.effects)
    }
    usage.store()
    return { effects, gaps, succeeded, exhausted }
  }

  /** The report; a piece of an answer that was not requested, or beyond the limits, becomes a failure. */
  function checkEvent(row: JobRow, one: DeviceReport, nowMs: number): DeviceReport {
    if (!('text' in one.data)) return one
    const { device, data } = one
    const problem = 'sentence' in data ? sentenceProblem(row.kind, JSON.parse(row.input) as unknown, data) : undefined
    if (problem !== undefined) return { ...one, report: invalid(row.kind, problem), data: {} }
    const used = { attemptBytes: row.attempt_bytes, dayBytes: usage.bytesOf(device, nowMs) }
    const verdict = judgeStorage(used, storedBytes(JSON.stringify(data)), db.limits)
    return verdict.kind === 'stored' ? one : { ...one, report: storageFailure(device, verdict.limit, db.limits), data: {} }
  }

  return {
    storeReports(reports, nowMs) {
      try {
        return db.transaction(() => storeAll(reports, nowMs))
      } catch (error) {
        usage.rollBack()
        throw error
      }
    },
  }
}

/** An answer without end is no reason to try another device; a device that has stored too much today is one. */
function storageFailure(device: string, limit: keyof StorageLimits, limits: StorageLimits): JobReport {
  if (limit === 'attemptBytes') {
    const message = `the pieces of the answer exceed the limit of ${limits.attemptBytes} bytes for one attempt`
    return { type: 'failed', failure: 'refused', error: { code: 'REQUEST_INVALID', message } }
  }
  const message = `${device} has stored its ${limits.deviceBytesPerDay} bytes of job events for today (UTC)`
  return { type: 'failed', failure: 'unavailable', error: { code: 'QUOTA_EXCEEDED', message } }
}

/** The report; a result that does not fit the job becomes a failure. */
function checkResult({ kind, input }: JobRow, one: DeviceReport): DeviceReport {
  const { report, data } = one
  if (report.type !== 'succeeded') return one
  const bytes = Buffer.byteLength(JSON.stringify(data))
  // Written again, a number may be longer than the device wrote it.
  const isLarge = bytes > maxMessageBytes
  const problem = isLarge
    ? `${bytes} bytes; the limit is ${maxMessageBytes}`
    : resultProblem(kind, JSON.parse(input) as unknown, data)
  return problem === undefined ? one : { ...one, report: invalid(kind, problem), data: {} }
}

function invalid(kind: string, problem: string): JobReport {
  const error = { code: 'JOB_FAILED', message: `the device's result is invalid for ${kind}: ${problem}`.slice(0, 2_000) }
  return { type: 'failed', failure: 'failed', error }
}
