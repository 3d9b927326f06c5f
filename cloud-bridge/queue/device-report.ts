import { type AttemptFailure, attemptFailures } from '../../core/policy/jobs/retry.ts'
import type { JobEvent } from '../../core/wire/protocol/jobs.ts'
import type { DeviceReport } from './reports.ts'

/** A device's event as the store takes it. */
export function reportOf(device: string, event: JobEvent): DeviceReport {
  const { job, attempt, n } = event
  const address = { job, device, attempt, n }
  switch (event.type) {
    case 'text': {
      const { text, from } = event
      return { ...address, report: { type: 'progress' }, data: { text, from } }
    }
    case 'sentence': {
      const { sketch, sentence, candidate, model, text, tokens, meanLog2Probability, end } = event
      const data = { sketch, sentence, candidate, model, text, tokens, meanLog2Probability, ...(end && { end }) }
      return { ...address, report: { type: 'progress' }, data }
    }
    case 'progress': {
      const { doneBytes, totalBytes } = event
      return { ...address, report: { type: 'progress' }, data: { doneBytes, totalBytes } }
    }
    case 'succeeded':
      return { ...address, report: { type: 'succeeded' }, data: event.result }
    case 'failed':
      return { ...address, report: { type: 'failed', failure: failureOf(event.failure), error: event.error }, data: {} }
    case 'accepted':
    case 'running':
    case 'canceled':
      return { ...address, report: { type: event.type }, data: {} }
    default:
      return event satisfies never
  }
}

/** A newer device may report failures that this bridge does not know. */
const failureOf = (name: string): AttemptFailure => attemptFailures.find((known) => known === name) ?? 'failed'
