import { expect, it } from 'vitest'
import { createJobSender } from '../../../cloud-bridge/queue/job-sender.ts'
import type { JobStore } from '../../../cloud-bridge/queue/job-store.ts'

const version = { modelId: 'a'.repeat(64), manifestSha256: 'b'.repeat(64) }

it('sends the probe of an installation beside its input, where devices of release 0.2 ignore it', () => {
  const sent: object[] = []
  const { send } = createJobSender('bridge-1', {} as JobStore, (_device, _leaf, message) =>
    sent.push(JSON.parse(message) as object),
  )
  const probe = { prompt: 'Hello', maxTokens: 8 }
  const dispatch = { job: '0123abcd-1', attempt: 1, device: 'orin' }
  send({ ...dispatch, kind: 'bundle.install', input: { ...version, probe } })
  send({ ...dispatch, kind: 'bundle.install', input: version })
  send({ ...dispatch, kind: 'config.apply', input: { settings: {}, probe } })
  expect(sent).toMatchObject([{ input: version, probe }, { input: version }, { input: { probe } }])
  expect(sent.slice(1).some((message) => 'probe' in message)).toBe(false)
  expect((sent[0] as { input: object }).input).toEqual(version)
})
