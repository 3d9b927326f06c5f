import { inputApart, type JobAck, type ToJobDevice } from '../../core/wire/protocol/jobs.ts'
import type { AttemptToSend } from './assign-attempts.ts'
import type { AttemptEffect } from './job-database.ts'
import type { JobStore } from './job-store.ts'

/** Publishes to a device at least once while the broker is connected; lost messages are sent again later. */
export type PublishToDevice = (device: string, leaf: 'jobs' | 'acks', message: string) => void

/** The job messages of a bridge to its devices. */
export function createJobSender(bridge: string, jobs: JobStore, publish: PublishToDevice) {
  const publishJob = (device: string, message: ToJobDevice) => publish(device, 'jobs', JSON.stringify(message))
  const send = ({ device, job, attempt, kind, input }: AttemptToSend) =>
    publishJob(device, { v: 1, type: 'run', bridge, job, attempt, kind, ...inputApart(kind, input) })
  return {
    send,
    sendAck: (device: string, ack: JobAck) => publish(device, 'acks', JSON.stringify(ack)),
    runEffects(effects: readonly AttemptEffect[]): void {
      for (const { kind, job, device, attempt } of effects) {
        if (kind === 'cancelAttempt') {
          publishJob(device, { v: 1, type: 'cancel', bridge, job, attempt })
          continue
        }
        const dispatch = jobs.dispatchOf(job)
        if (dispatch?.attempt === attempt) send(dispatch)
      }
    },
  }
}
