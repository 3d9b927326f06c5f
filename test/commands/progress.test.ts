import { expect, it } from 'vitest'
import { showProgress } from '../../core/commands/progress.ts'
import { captureIo } from '../support/captured-io.ts'

it('says every tenth on a line of its own where stderr is no terminal', () => {
  const { io, err } = captureIo()
  const progress = showProgress(io)
  for (let i = 0; i <= 1000; i++) progress.update('middle', i / 1000)
  expect(err().trimEnd().split('\n')).toEqual(Array.from({ length: 11 }, (_, i) => `${10 * i} % middle`))
})

it('redraws one line where it is a terminal', () => {
  const { io, err } = captureIo()
  const progress = showProgress({ ...io, errIsTty: true })
  for (const share of [0, 0.001, 0.5, 1]) progress.update('middle', share)
  progress.end()
  progress.update('hashes', 0)
  const lines = err().trimEnd().split('\n')
  expect(lines.map((line) => line.startsWith('\u001b[1A\u001b[2K'))).toEqual([false, true, true, false])
  expect(lines[2]).toContain(`${'█'.repeat(30)} 100 % middle`)
})
