import { describe, expect, it } from 'vitest'
import { PresenceFeed } from '../../../cloud-bridge/presence/presence-feed.ts'
import { openJobs } from '../../../cloud-bridge/queue/open-jobs.ts'
import { JobSubmission } from '../../../core/wire/protocol/jobs.ts'
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
    {
      bridge: 'bridge-1',
      presence: new PresenceFeed(silentLogger()),
      clock,
      publish: () => {},
      onUnreadable: () => {},
      logger: silentLogger(),
    },
    () => ({ wallMs, upMs: wallMs, boot: '' }),
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

describe('a clock that jumps', () => {
  const startMs = Date.UTC(2026, 5, 1)
  const hourMs = 3_600_000
  const submission = JobSubmission.parse({ kind: 'slm.generate', input: { prompt: 'Is it far?' }, deadlineS: 600 })

  /** A bridge's queue on a machine whose clock is off by `errorMs`. */
  function machine(stateDir: string) {
    const clock = fakeClock()
    const world = { errorMs: 0, boot: 'first', bootedMs: 0 }
    const open = () =>
      openJobs(
        { stateDir, limits, jobs: { keepDays: 2, keepDeadDays: 5, keepCount: 1_000, keepBytes: 1e9 } },
        {
          bridge: 'bridge-1',
          presence: new PresenceFeed(silentLogger()),
          clock,
          publish: () => {},
          onUnreadable: () => {},
          logger: silentLogger(),
        },
        () => ({
          wallMs: startMs + clock.nowMs() + world.errorMs,
          upMs: clock.nowMs() - world.bootedMs,
          boot: world.boot,
        }),
      )
    return { clock, world, open }
  }

  const submit = ({ queue }: ReturnType<typeof openJobs>) => queue.submit(Array.from({ length: 20 }, () => submission))
  const states = ({ store }: ReturnType<typeof openJobs>) => new Set(store.list({ limit: 100 }).map(({ state }) => state))

  it.each([1, -1])('for 3 s by %i h ends no job, also where the bridge restarts meanwhile', async (hours) => {
    using dir = tempDir()
    const { clock, world, open } = machine(dir.path)
    const jobs = open()
    jobs.queue.start()
    submit(jobs)
    await clock.advance(10_000)
    world.errorMs = hours * hourMs
    await clock.advance(1_500)
    await jobs.close()
    const again = open()
    again.queue.start()
    await clock.advance(1_500)
    world.errorMs = 0
    await clock.advance(10_000)
    expect(states(again)).toEqual(new Set(['QUEUED']))
    await clock.advance(600_000 - 23_000 - 1)
    expect(states(again)).toEqual(new Set(['QUEUED']))
    await clock.advance(200)
    expect(states(again)).toEqual(new Set(['TIMED_OUT']))
    await again.close()
  })

  it('for good takes the deadlines with it', async () => {
    using dir = tempDir()
    const { clock, world, open } = machine(dir.path)
    const jobs = open()
    jobs.queue.start()
    world.errorMs = hourMs
    const late = jobs.queue.submit([{ ...submission, deadlineS: 1_200 }])[0]!.id
    await clock.advance(1_000_000)
    expect(states(jobs)).toEqual(new Set(['QUEUED']))
    expect(jobs.store.find(late)?.deadlineAt).toBe(new Date(startMs + hourMs + 1_200_000).toISOString())
    await clock.advance(201_000)
    expect(states(jobs)).toEqual(new Set(['TIMED_OUT']))
    await jobs.close()
  })

  it('while the machine is off: time that has passed ends jobs, a clock that is far ahead does not', async () => {
    using dir = tempDir()
    const { clock, world, open } = machine(dir.path)
    const jobs = open()
    submit(jobs)
    await jobs.close()
    Object.assign(world, { boot: 'second', bootedMs: clock.nowMs(), errorMs: 365 * 24 * hourMs })
    const far = open()
    far.queue.start()
    await clock.advance(1_000)
    expect(states(far)).toEqual(new Set(['QUEUED']))
    world.errorMs = 0
    await far.close()
    Object.assign(world, { boot: 'third', errorMs: hourMs })
    const later = open()
    later.queue.start()
    await clock.advance(1_000)
    expect(states(later)).toEqual(new Set(['TIMED_OUT']))
    await later.close()
  })
})
