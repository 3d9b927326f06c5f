import { describe, expect, it } from 'vitest'
import type { LastTelemetry } from '../../../../cloud-bridge/fleet/registry.ts'
import { problemsOf } from '../../../../core/policy/fleet/problems.ts'

const at = '2026-05-01T12:00:00Z'
const telemetry = (more: object) =>
  ({ ageS: 1, at, birth: 1, link: null, speed: { prefillTokensPerS: null, draftStepMs: null }, ...more }) as LastTelemetry
const room = (freeBytes: number | null) => ({ totalBytes: 1_000, freeBytes })
const battery = (levelPercent: number, more: object = {}) => ({ levelPercent, state: 'discharging', isPlugged: false, ...more })

describe('what an operator should look at', () => {
  it.each([
    [{}, []],
    [{ throttling: { isThrottled: true, causes: ['a', 'b'] } }, [['throttled', 'a, b']]],
    [{ throttling: { isThrottled: null, causes: [] } }, []],
    [{ battery: battery(19.6) }, [['battery', '20 %']]],
    [{ battery: battery(20) }, []],
    [{ battery: battery(5, { state: 'charging' }) }, []],
    [{ battery: battery(5, { isPlugged: true }) }, []],
    [
      { battery: null, disk: room(99), memory: room(49) },
      [
        ['disk', '90 % full'],
        ['memory', '95 % full'],
      ],
    ],
    [{ disk: room(100), memory: room(50) }, []],
    [{ disk: room(null), memory: { totalBytes: 0, freeBytes: 0 } }, []],
    [{ errors: [{ code: 'LINK_LOST', at: '2026-05-01T11:51:00Z', count: 3 }] }, [['errors', 'LINK_LOST']]],
    [{ errors: [{ code: 'LINK_LOST', at: '2026-05-01T11:49:00Z', count: 3 }] }, []],
  ])('%j: %j', (measured, found) => {
    expect(problemsOf('ready', telemetry(measured)).map(({ kind, detail }) => [kind, detail])).toEqual(found)
  })

  it('is that a device is lost, not what it had measured before', () => {
    const hot = telemetry({ throttling: { isThrottled: true, causes: [] } })
    expect(problemsOf('lost', hot)).toEqual([{ kind: 'lost', detail: '' }])
    expect(problemsOf('disconnected', hot)).toEqual([])
    expect(problemsOf(null, null)).toEqual([])
    expect(problemsOf('draining', hot)).toHaveLength(1)
  })
})
