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
  ['waits for the first due time', {}, 0, { kind: 'wait', ms: 100 }],
  ['samples when a sample is due', {}, 100, { kind: 'sample' }],
  ['samples before it checks or replays', {}, 999, { kind: 'sample' }],
  ['checks before it replays', { sampleDueMs: Number.POSITIVE_INFINITY }, 999, { kind: 'check' }],
  [
    'replays when neither sample nor check is due',
    { sampleDueMs: 1_000, checkDueMs: 1_000 },
    300,
    { kind: 'replay', leaf: 'log' },
  ],
  ['replays no earlier than due', { sampleDueMs: 1_000, checkDueMs: 1_000 }, 299, { kind: 'wait', ms: 1 }],
  ['does not replay without a bridge', { sampleDueMs: 1_000, checkDueMs: 900, hasBridge: false }, 300, { kind: 'wait', ms: 600 }],
  ['does not replay empty queues', { sampleDueMs: 1_000, checkDueMs: 900, queues: [] }, 300, { kind: 'wait', ms: 600 }],
])('the reporting loop %s', (_, changes, nowMs, expected) => {
  expect(nextReportingStep({ ...state, ...changes }, nowMs)).toEqual(expected)
})
