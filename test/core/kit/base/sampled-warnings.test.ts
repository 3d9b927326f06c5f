import { expect, it } from 'vitest'
import { cutText, sampledWarnings } from '../../../../core/kit/base/sampled-warnings.ts'
import { fakeClock } from '../../../support/fake-clock.ts'
import { recordingLogger } from '../../../support/recording-logger.ts'

it('logs the first warnings of a kind in each window, and says how many were left out', async () => {
  const { logger, lines } = recordingLogger('warn')
  const clock = fakeClock()
  const warn = sampledWarnings(logger, clock, { windowMs: 1_000, max: 2 })
  for (let n = 0; n < 5; n++) warn({ n }, 'refused')
  warn({ n: 9 }, 'slowed')
  await clock.advance(1_000)
  for (let n = 5; n < 7; n++) warn({ n }, 'refused')
  expect(lines.map(({ msg, n, leftOut }) => ({ msg, n, leftOut }))).toEqual([
    { msg: 'refused', n: 0 },
    { msg: 'refused', n: 1 },
    { msg: 'slowed', n: 9 },
    { msg: 'refused', n: 5, leftOut: 3 },
    { msg: 'refused', n: 6 },
  ])
})

it('cuts text of clients, and says how long it was', () => {
  expect(cutText('device-a')).toBe('device-a')
  expect(cutText('x'.repeat(65_000))).toBe(`${'x'.repeat(100)}… (65000 characters)`)
})
