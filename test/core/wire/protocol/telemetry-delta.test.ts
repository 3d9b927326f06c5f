import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import {
  changesOf,
  expectedAfter,
  type Fields,
  withChanges,
  withoutUnknown,
} from '../../../../core/wire/protocol/telemetry-delta.ts'

describe('the difference between two samples', () => {
  it('has the fields that differ, objects field by field, lists as a whole', () => {
    const base = { load: { cpuPercent: 3, gpuPercent: null }, errors: [1], battery: null, fan: { rpm: 1 } }
    const now = { load: { cpuPercent: 4, gpuPercent: null }, errors: [1, 2], battery: { levelPercent: 9 }, fan: null }
    const changes = { load: { cpuPercent: 4 }, errors: [1, 2], battery: { levelPercent: 9 }, fan: null }
    expect(changesOf(base, now)).toEqual(changes)
    expect(withChanges(base, changes)).toEqual(now)
    expect(changesOf(base, base)).toEqual({})
  })

  it('does not exist if a field has vanished', () => {
    expect(changesOf({ zonesC: { cpu: 1, gpu: 2 } }, { zonesC: { cpu: 1 } })).toBeUndefined()
    expect(changesOf({ a: 1 }, {})).toBeUndefined()
  })

  it('rebuilds every sample, also one with names that objects inherit', () => {
    const source = seededRandom(5)
    const random = () => source.next()
    const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)]!
    const names = ['a', 'b', 'constructor', '__proto__', 'toString']
    const anyValue = (depth: number): unknown => {
      const plain = pick<unknown>([0, 1, 2.5, 'x', null, true, [], [1, 'y'], [{ z: 1 }]])
      if (depth === 0 || random() < 0.4) return plain
      return Object.fromEntries(names.filter(() => random() < 0.7).map((name) => [name, anyValue(depth - 1)]))
    }
    const sample = () => Object.fromEntries(names.map((name) => [name, anyValue(2)])) as Fields
    let rebuilt = 0
    for (let round = 0; round < 3_000; round++) {
      const [base, now] = [sample(), sample()]
      const changes = changesOf(base, now)
      if (changes === undefined) continue
      rebuilt++
      const sent = JSON.parse(JSON.stringify(changes)) as Fields
      expect(JSON.parse(JSON.stringify(withChanges(base, sent)))).toEqual(JSON.parse(JSON.stringify(now)))
    }
    expect(rebuilt).toBeGreaterThan(100)
    expect(Object.hasOwn(Object.prototype, 'a')).toBe(false)
  })

  it('expects the uptime to have grown', () => {
    expect(expectedAfter({ device: { uptimeS: 100, os: 'x' }, a: 1 }, 10.4)).toEqual({ device: { uptimeS: 110, os: 'x' }, a: 1 })
    for (const sample of [{ a: 1 }, { device: { uptimeS: null } }]) expect(expectedAfter(sample, 10)).toEqual(sample)
  })

  it('leaves unknown figures out of a complete sample, but not absent parts of the device', () => {
    const sample = {
      link: null,
      battery: null,
      load: { cpuPercent: 3, gpuPercent: null },
      network: { eth0: { isUp: true, x: null } },
    }
    expect(withoutUnknown(sample)).toEqual({
      link: null,
      battery: null,
      load: { cpuPercent: 3 },
      network: { eth0: { isUp: true } },
    })
  })
})
