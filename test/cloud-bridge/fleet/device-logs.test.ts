import { expect, it } from 'vitest'
import { DeviceLogs } from '../../../cloud-bridge/fleet/device-logs.ts'

const line = (message: string, fields: object = {}) => {
  const at = '2026-01-02T03:04:05.678Z'
  return Buffer.from(JSON.stringify({ v: 1, at, birth: 1, level: 'warn', component: 'link', message, fields, dropped: 0 }))
}
const open = () => new DeviceLogs((device, leaf, reason) => expect.fail(`${leaf} of ${device}: ${reason}`))

it('the latest lines of a device are remembered, and no more of them than were asked for', () => {
  const logs = open()
  for (let i = 1; i <= 600; i++) logs.add('a', line(`no. ${i}`))
  const shown = (limit: number, after = 0) => logs.of('a', 'warn', limit, after).map(({ n }) => n)
  expect(shown(3)).toEqual([598, 599, 600])
  expect(shown(0)).toEqual([])
  expect(shown(Number.POSITIVE_INFINITY)).toHaveLength(500)
  expect(shown(Number.POSITIVE_INFINITY, 598)).toEqual([599, 600])
  expect(logs.of('a', 'error', 10)).toEqual([])
})

it('a device that says very much is remembered no larger than others, and costs those nothing', () => {
  const logs = open()
  logs.add('b', line('here'))
  const large = Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`field-${i}`, 'x'.repeat(500)]))
  for (let i = 0; i < 100; i++) logs.add('a', line('much', large))
  logs.add('a', line('the last'))
  const kept = logs.of('a', 'debug', Number.POSITIVE_INFINITY)
  expect(kept.length).toBeGreaterThan(1)
  expect(JSON.stringify(kept).length).toBeLessThan(300 * 1024)
  expect(kept.at(-1)).toMatchObject({ n: 101, message: 'the last' })
  expect(logs.of('b', 'debug', 1)).toMatchObject([{ message: 'here' }])
})
