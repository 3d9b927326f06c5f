import { expect, it } from 'vitest'
import { showProgress } from '../../../core/commands/progress.ts'
import { captureIo } from '../../support/captured-io.ts'

it('prints a line every two seconds where stderr is not a terminal', () => {
  const { io, err } = captureIo()
  let nowMs = 0
  const progress = showProgress(io, { nowMs: () => nowMs, sleep: () => Promise.resolve() })
  for (let i = 0; i <= 1000; i++) {
    nowMs = i * 10
    progress.update('middle', i / 1000)
  }
  expect(err().trimEnd().split('\n')).toEqual(['20 % middle', '40 % middle', '60 % middle', '80 % middle', '100 % middle'])
})

it('redraws one line on a terminal', () => {
  const { io, err } = captureIo()
  const progress = showProgress({ ...io, errIsTty: true })
  for (const share of [0, 0.001, 0.5, 1]) progress.update('middle', share)
  progress.end()
  progress.update('hashes', 0)
  const lines = err().trimEnd().split('\n')
  expect(lines.map((line) => line.startsWith('\u001b[1A\u001b[2K'))).toEqual([false, true, true, false])
  expect(lines[2]).toContain(`${'█'.repeat(30)} 100 % middle`)
})
