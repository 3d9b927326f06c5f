import type { ServingSpeeds, ServingState, StreamState } from '../../core/policy/serving/policy.ts'
import { Reader, readingTokensPerS } from '../../core/policy/serving/reader.ts'

export const stepOf16 = { rows: 512, streams: 16 }

export const unmeasured: ServingSpeeds = {
  tokensPerS: undefined,
  prefillSPerRow: undefined,
  stepSOf: () => undefined,
  evictBytesPerS: undefined,
  loadBytesPerS: undefined,
}

/** A resident stream that decodes, apart from `fields`. */
export const streamState = (id: number, fields: Partial<StreamState> = {}): StreamState => ({
  id,
  client: '',
  source: 'device',
  waitingRows: 1,
  phase: 'decode',
  arrivedMs: id,
  stepsSkipped: 0,
  contextLength: 64,
  kvBytes: 64,
  growthBytes: 0,
  fullBytes: 64,
  residency: 'resident',
  resumptions: ['load'],
  writtenRows: 0,
  reader: undefined,
  ...fields,
})

/** As `streamState`, of an answer that a person reads. */
export const answerState = (id: number, fields: Partial<StreamState> = {}): StreamState =>
  streamState(id, {
    source: 'answer',
    resumptions: ['load', 'recompute'],
    reader: new Reader(readingTokensPerS, 100, 0),
    ...fields,
  })

/** Of these streams, with much memory and no measurements, apart from `fields`. */
export const stateOf = (streams: readonly StreamState[], fields: Partial<ServingState> = {}): ServingState => ({
  waiting: streams.filter(({ waitingRows }) => waitingRows > 0),
  idle: streams.filter(({ waitingRows }) => waitingRows === 0),
  cached: [],
  memory: { budgetBytes: 1_000_000, usedBytes: 0 },
  leavingBytes: 0,
  slow: undefined,
  speeds: unmeasured,
  step: stepOf16,
  lastDecodeMs: undefined,
  ...fields,
})
