import { expect, it } from 'vitest'
import { DeviceLogs } from '../../../cloud-bridge/fleet/device-logs.ts'

const line = (message: string, fields: object = {}) => {
  const at = '2026-01-02T03:04:05.678Z'
  return Buffer.from(JSON.stringify({ v: 1, at, birth: 1, level: 'warn', component: 'link', message, fields, dropped: 0 }))
}
const open = () =>
  new DeviceLogs(
    { deviceBytes: 256 * 1_024, totalBytes: 2 ** 30 },
    () => true,
    (device, leaf, reason) => expect.fail(`${leaf} of ${device}: ${reason}`),
  )

it('the log of a device retains its latest lines, and returns those after a line up to a limit', () => {
  const logs = open()
  for (let i = 1; i <= 600; i++) logs.add('a', line(`no. ${i}`))
  const shown = (limit: number, after = 0) => logs.of('a', 'warn', limit, after).map(({ n }) => n)
  expect(shown(3)).toEqual([598, 599, 600])
  expect(shown(0)).toEqual([])
  expect(shown(Number.POSITIVE_INFINITY)).toHaveLength(500)
  expect(shown(Number.POSITIVE_INFINITY, 598)).toEqual([599, 600])
  expect(logs.of('a', 'error', 10)).toEqual([])
})

it('the log of a device is limited in size, without effect on other devices', () => {
  const logs = open()
  logs.add('b', line('here'))
  const large = Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`field-${i}`, 'x'.repeat(500)]))
  for (let i = 0; i < 100; i++) logs.add('a', line('much', large))
  logs.add('a', line('the last'))
  const lines = logs.of('a', 'debug', Number.POSITIVE_INFINITY)
  expect(lines.length).toBeGreaterThan(1)
  expect(JSON.stringify(lines).length).toBeLessThan(300 * 1024)
  expect(lines.at(-1)).toMatchObject({ n: 101, message: 'the last' })
  expect(logs.of('b', 'debug', 1)).toMatchObject([{ message: 'here' }])
})
