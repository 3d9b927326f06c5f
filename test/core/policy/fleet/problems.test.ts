import { describe, expect, it } from 'vitest'
import { type ProblemSample, problemsOf } from '../../../../core/policy/fleet/problems.ts'

const at = '2026-05-01T12:00:00Z'
const sample = (more: object) => ({ at, ...more }) as ProblemSample
/** Of 1000 GiB. */
const capacity = (freeGiB: number | null) => ({
  totalBytes: 1_000 * 2 ** 30,
  freeBytes: freeGiB === null ? null : freeGiB * 2 ** 30,
})
const battery = (levelPercent: number, more: object = {}) => ({ levelPercent, state: 'discharging', isPlugged: false, ...more })

describe('the problems of a device', () => {
  it.each([
    [{}, []],
    [{ throttling: { isThrottled: true, causes: ['a', 'b'] } }, [['throttled', 'a, b']]],
    [{ throttling: { isThrottled: null, causes: [] } }, []],
    [{ battery: battery(19.6) }, [['battery', '20 %']]],
    [{ battery: battery(20) }, []],
    [{ battery: battery(5, { state: 'charging' }) }, []],
    [{ battery: battery(5, { isPlugged: true }) }, []],
    [
      { battery: null, disk: capacity(99), memory: capacity(49) },
      [
        ['disk', '90 % full'],
        ['memory', '95 % full'],
      ],
    ],
    [{ disk: capacity(100), memory: capacity(50) }, []],
    [{ disk: capacity(0) }, [['disk-full', '']]],
    [{ disk: capacity(0.0001) }, [['disk-full', '']]],
    [{ disk: capacity(0.01) }, [['disk', '99 % full']]],
    [{ disk: capacity(null), memory: { totalBytes: 0, freeBytes: 0 } }, []],
    [{ errors: [{ code: 'LINK_LOST', at: '2026-05-01T11:51:00Z', count: 3 }] }, [['errors', 'LINK_LOST']]],
    [{ errors: [{ code: 'LINK_LOST', at: '2026-05-01T11:49:00Z', count: 3 }] }, []],
  ])('of the sample %j are %j', (measured, found) => {
    expect(problemsOf('ready', sample(measured)).map(({ kind, detail }) => [kind, detail])).toEqual(found)
  })

  it('are its loss alone once it is lost, and none once it is disconnected', () => {
    const hot = sample({ throttling: { isThrottled: true, causes: [] } })
    expect(problemsOf('lost', hot)).toEqual([{ kind: 'lost', detail: '' }])
    expect(problemsOf('disconnected', hot)).toEqual([])
    expect(problemsOf(null, null)).toEqual([])
    expect(problemsOf('draining', hot)).toHaveLength(1)
  })
})
