import { expect, it } from 'vitest'
import { logText } from '../../../../core/kit/base/log-text.ts'
import { scrubLogLine } from '../../../../core/kit/support-bundle/scrub.ts'

const time = '2031-05-04T09:30:00.125Z'
const err = { message: 'the prompt "my secret plan"; error: more [CODE]', code: 'LINK_LOST', cause: 'my secret plan' }
const logged = {
  level: 40,
  time,
  component: 'link',
  device: 'orin',
  msg: 'link lost',
  retryMs: 250,
  answer: 'my secret plan',
  err,
}

it.each([
  ['JSON', JSON.stringify(logged)],
  ['text', logText(logged).trimEnd()],
])('a line of the log keeps what the program chose, and no text of others: %s', (_, line) => {
  const scrubbed = scrubLogLine(line)
  for (const kept of [time, 'link lost', 'orin', '250']) expect(scrubbed).toContain(kept)
  expect(scrubbed).not.toMatch(/secret|plan|prompt/)
})

it.each(['', 'my secret plan', '    at answer (my secret plan)', `${time} my secret plan`, '[1]'])(
  'a line of others is left out: %s',
  (line) => {
    expect(scrubLogLine(line)).toBeUndefined()
  },
)
