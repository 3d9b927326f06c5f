import { expect, it } from 'vitest'
import { nextReportingStep, type ReportingState } from '../../../../core/policy/telemetry/reporting.ts'

const state: ReportingState = {
  sampleDueMs: 100,
  checkDueMs: 200,
  replayDueMs: 300,
  queues: [{ leaf: 'log', count: 1 }],
  hasBridge: true,
}

it.each<[string, Partial<ReportingState>, number, ReturnType<typeof nextReportingStep>]>([
  ['waits for what is due first', {}, 0, { kind: 'wait', ms: 100 }],
  ['samples when a sample is due', {}, 100, { kind: 'sample' }],
  ['samples first of all that is due', {}, 999, { kind: 'sample' }],
  ['checks before it replays', { sampleDueMs: Number.POSITIVE_INFINITY }, 999, { kind: 'check' }],
  ['replays when nothing else is due', { sampleDueMs: 1_000, checkDueMs: 1_000 }, 300, { kind: 'replay', leaf: 'log' }],
  ['replays no faster than it may', { sampleDueMs: 1_000, checkDueMs: 1_000 }, 299, { kind: 'wait', ms: 1 }],
  ['replays nothing without a bridge', { sampleDueMs: 1_000, checkDueMs: 900, hasBridge: false }, 300, { kind: 'wait', ms: 600 }],
  ['replays nothing from empty queues', { sampleDueMs: 1_000, checkDueMs: 900, queues: [] }, 300, { kind: 'wait', ms: 600 }],
])('the reporting loop %s', (_, changes, nowMs, expected) => {
  expect(nextReportingStep({ ...state, ...changes }, nowMs)).toEqual(expected)
})
