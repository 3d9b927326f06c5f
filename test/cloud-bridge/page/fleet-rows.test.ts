import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fleetItems, labelNames, problemCounts } from '../../../cloud-bridge/page/fleet-rows.ts'
import type { FleetRow } from '../../../core/wire/protocol/http/devices.ts'

const plain: FleetRow = {
  id: 'orin-01',
  state: 'ready',
  module: 'Orin Nano',
  seenS: 1,
  powerW: 5,
  batteryPercent: null,
  hottestC: 45,
  isThrottled: false,
  cpuPercent: 10,
  gpuPercent: 0,
  upBytesPerS: 900_000,
  downBytesPerS: 900_000,
  jobs: 0,
  tokensPerS: 30,
  provider: 'cpu',
  model: 'demo',
  agent: '0.3.0',
  labels: {},
  problems: [],
  unusable: null,
}
const view = { filter: '', sort: 'problems', isDescending: false, group: '' } as const
const lost: FleetRow = { ...plain, id: 'b-lost', state: 'lost', problems: [{ kind: 'lost', detail: '' }] }
const hot: FleetRow = {
  ...plain,
  id: 'c-hot',
  hottestC: 91,
  problems: [{ kind: 'throttled', detail: 'gpu' }],
  labels: { site: 'lab' },
}
const idle: FleetRow = { ...plain, id: 'a-idle', unusable: { kind: 'bundle', detail: 'has none' }, labels: { site: 'Field' } }
const rows = [plain, idle, hot, lost]
const idsOf = (options: Partial<Parameters<typeof fleetItems>[1]>) =>
  fleetItems(rows, { ...view, ...options }).map((item) => (item.kind === 'device' ? item.row.id : item.label))

describe('the list of devices', () => {
  it('has the most severe problems first, then devices without any', () => {
    expect(idsOf({})).toEqual(['b-lost', 'c-hot', 'a-idle', 'orin-01'])
    expect([...problemCounts(rows)]).toEqual(
      expect.arrayContaining([
        ['lost', 1],
        ['throttled', 1],
        ['unusable: bundle', 1],
      ]),
    )
  })

  it('is sorted by a figure in either order, with the unknown ones last', () => {
    const unknown = { ...plain, id: 'unknown', hottestC: null }
    const sorted = (isDescending: boolean) =>
      fleetItems([unknown, plain, hot], { ...view, sort: 'hottestC', isDescending }).map(
        (item) => item.kind === 'device' && item.row.id,
      )
    expect(sorted(true)).toEqual(['c-hot', 'orin-01', 'unknown'])
    expect(sorted(false)).toEqual(['orin-01', 'c-hot', 'unknown'])
  })

  it.each([
    ['site=lab', ['c-hot']],
    ['site=field', ['a-idle']],
    ['lost', ['b-lost']],
    ['orin nano 0.3', ['b-lost', 'c-hot', 'a-idle', 'orin-01']],
    ['site=la', []],
    ['bundle', ['a-idle']],
  ])('is filtered by %s', (filter, ids) => {
    expect(idsOf({ filter })).toEqual(ids)
  })

  it('is grouped by the values of a label', () => {
    expect(idsOf({ group: 'site' })).toEqual(['site=Field', 'a-idle', 'site=lab', 'c-hot', 'without site', 'b-lost', 'orin-01'])
    expect(labelNames(rows)).toEqual(['site'])
  })

  it('has every device that fits once, whatever it is sorted and grouped by', () => {
    const anyRow = fc.record({
      id: fc.stringMatching(/^[a-z]{1,6}$/),
      state: fc.constantFrom('ready', 'lost', 'disconnected', 'revoked'),
      hottestC: fc.option(fc.integer({ min: 0, max: 99 })),
      labels: fc.constantFrom({}, { site: 'lab' }, { site: 'field', rack: '1' }),
    })
    fc.assert(
      fc.property(
        fc.uniqueArray(anyRow, { selector: ({ id }) => id }),
        fc.constantFrom('problems', 'id', 'hottestC', 'jobs', 'model'),
        fc.boolean(),
        fc.constantFrom('', 'site', 'rack'),
        (some, sort, isDescending, group) => {
          const all = some.map((row) => ({ ...plain, ...row }))
          const items = fleetItems(all, { filter: '', sort, isDescending, group })
          const ids = items.flatMap((item) => (item.kind === 'device' ? [item.row.id] : []))
          const counted = items.reduce((sum, item) => sum + (item.kind === 'group' ? item.count : 0), 0)
          expect(ids.sort()).toEqual(all.map(({ id }) => id).sort())
          expect(counted).toBe(group === '' ? 0 : all.length)
        },
      ),
    )
  })
})
