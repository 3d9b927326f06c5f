import { expect, it } from 'vitest'
import { openJobs } from '../../../cloud-bridge/queue/open-jobs.ts'
import { JobSubmission } from '../../../core/protocol/jobs.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const dayMs = 86_400_000
const limits = { jobAttemptBytes: 4 * 2 ** 20, deviceJobBytesPerDay: 2 ** 30 }

it('retains done jobs and dead letters for the configured days, and queued jobs', async () => {
  using dir = tempDir()
  const clock = fakeClock()
  let wallMs = 0
  const { store, queue, close } = openJobs(
    { stateDir: dir.path, limits, jobs: { keepDays: 2, keepDeadDays: 5, keepCount: 1_000, keepBytes: 1e9 } },
    { bridge: 'bridge-1', clock, wallMs: () => wallMs, publish: () => {}, onUnreadable: () => {}, logger: silentLogger() },
  )
  const submission = JobSubmission.parse({ kind: 'slm.generate', input: { prompt: 'Is it far?' }, deadlineS: 1 })
  const jobs = queue.submit([submission, submission, { ...submission, deadlineS: 7 * 86_400 }])
  queue.cancel(jobs[0]!.id)
  queue.start()
  const statesAt = async (atMs: number) => {
    wallMs = atMs
    await clock.advance(61_000)
    return jobs.map(({ id }) => store.find(id)?.state)
  }
  expect(await statesAt(1_000)).toEqual(['CANCELED', 'TIMED_OUT', 'QUEUED'])
  expect(await statesAt(2 * dayMs - 1)).toEqual(['CANCELED', 'TIMED_OUT', 'QUEUED'])
  expect(await statesAt(2 * dayMs + 1)).toEqual([undefined, 'TIMED_OUT', 'QUEUED'])
  expect(await statesAt(5 * dayMs)).toEqual([undefined, 'TIMED_OUT', 'QUEUED'])
  expect(await statesAt(5 * dayMs + 1_001)).toEqual([undefined, undefined, 'QUEUED'])
  await close()
})
