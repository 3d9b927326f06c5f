import { describe, expect, it } from 'vitest'
import { SampleEncoder } from '../../../agent/telemetry/sample-encoder.ts'
import { TelemetryReader } from '../../../cloud-bridge/fleet/telemetry-reader.ts'
import type { Measurements } from '../../../core/policy/telemetry/dead-bands.ts'

const start = Date.UTC(2026, 5, 1)
const moment = (s: number, clockIsSet = true) => ({ ms: s * 1_000, at: new Date(start + s * 1_000).toISOString(), clockIsSet })
const measured = (hottestC: number, more: object = {}) =>
  ({
    link: null,
    speed: { prefillTokensPerS: null, draftStepMs: null },
    device: { kind: 'jetson', os: 'Ubuntu 22.04.5 LTS', kernel: '5.15.148-tegra', cores: 6, uptimeS: 100 },
    temperatures: { hottestC, zonesC: { cpu: hottestC, gpu: 40 } },
    battery: null,
    errors: [],
    ...more,
  }) as unknown as Measurements
const up = (s: number) => ({
  device: { kind: 'jetson', os: 'Ubuntu 22.04.5 LTS', kernel: '5.15.148-tegra', cores: 6, uptimeS: 100 + s },
})

function sending() {
  const encoder = new SampleEncoder(7, {})
  const reader = new TelemetryReader(2 ** 14)
  const send = (s: number, sample: Measurements, receivers: string | null = 'bridge-1:1', isSet = true) => {
    const text = encoder.encode(sample, receivers ?? undefined, moment(s, isSet))
    return { text, json: JSON.parse(text), read: reader.read('a', Buffer.from(text), true) }
  }
  return { send, encoder, reader }
}

describe('telemetry messages', () => {
  it('are a complete sample first, then what has changed since, from which the bridge rebuilds the samples', () => {
    const { send } = sending()
    const first = send(0, measured(48.5))
    expect(first.json).toMatchObject({ v: 1, seq: 1, birth: 7, clockIsSet: true, link: null, battery: null })
    expect(first.text).not.toContain('draftStepMs')
    const second = send(10, measured(50, up(10)))
    expect(second.json).toEqual({
      v: 1,
      at: moment(10).at,
      birth: 7,
      base: 1,
      set: { temperatures: { hottestC: 50, zonesC: { cpu: 50 } } },
    })
    expect(second.read).toMatchObject({
      message: {
        isBase: false,
        telemetry: {
          at: moment(10).at,
          birth: 7,
          clockIsSet: true,
          battery: null,
          errors: [],
          device: { os: 'Ubuntu 22.04.5 LTS', uptimeS: 110, module: null },
          temperatures: { hottestC: 50, zonesC: { cpu: 50, gpu: 40 } },
          speed: { draftStepMs: null },
        },
      },
    })
    // Compared with the complete sample, not with the last delta.
    expect(send(20, measured(48.6, up(20))).json.set).toEqual({})
    expect(send(30, measured(48.6, up(999))).json.set).toEqual({ device: { uptimeS: 1_099 } })
  })

  it('are complete every ten minutes, for other bridges, on request, and when a figure has vanished', () => {
    const { send, encoder } = sending()
    const isFull = (...args: Parameters<typeof send>) => send(...args).json.seq !== undefined
    expect([isFull(0, measured(48)), isFull(10, measured(48)), isFull(600, measured(48)), isFull(1_199, measured(48))]).toEqual([
      true,
      false,
      true,
      false,
    ])
    expect([encoder.needsFull('bridge-1:1'), encoder.needsFull('bridge-1:2'), encoder.needsFull(undefined)]).toEqual([
      false,
      true,
      false,
    ])
    expect([isFull(1_199, measured(48), 'bridge-1:2'), isFull(1_199, measured(48), 'bridge-1:2')]).toEqual([true, false])
    const without = measured(48, { temperatures: { hottestC: 48, zonesC: { cpu: 48 } } })
    expect([isFull(1_210, without, 'bridge-1:2'), isFull(1_220, without, 'bridge-1:2')]).toEqual([true, false])
  })

  it('have every figure for a bridge that knows no deltas', () => {
    const { send } = sending()
    for (const s of [0, 10]) {
      const { json, read } = send(s, measured(48.53), null)
      expect([json.seq, json.base]).toEqual([undefined, undefined])
      expect(json).toMatchObject({ speed: { prefillTokensPerS: null }, temperatures: { hottestC: 48.5 } })
      expect(read).toMatchObject({ message: { isBase: false } })
    }
  })

  it('say when the clock was set, even by years', () => {
    const { send } = sending()
    send(-1e9, measured(48), 'bridge-1:1', false)
    expect(send(10, measured(48)).read).toMatchObject({ message: { telemetry: { at: moment(10).at, clockIsSet: true } } })
  })
})

describe('the bridge', () => {
  it('drops a delta without its complete sample, and one of another start', () => {
    const { send, reader } = sending()
    const [first, second] = [send(0, measured(48)).text, send(10, measured(50, up(10))).text]
    const other = new TelemetryReader(2 ** 14)
    const read = (text: string, by = other, mayHold = true) => by.read('a', Buffer.from(text), mayHold).kind
    expect([read(second), read(first, other, false), read(second), read(first), read(second)]).toEqual([
      'baseless',
      'message',
      'baseless',
      'message',
      'message',
    ])
    expect(read(second.replace('"birth":7', '"birth":8'))).toBe('baseless')
    expect(read(second.replace('"base":1', '"base":2'))).toBe('baseless')
    reader.forget('a')
    expect(read(second, reader)).toBe('baseless')
  })

  it('bounds a rebuilt sample, and rejects one that is invalid', () => {
    const reader = new TelemetryReader(1_000)
    const read = (message: object) =>
      reader.read('a', Buffer.from(JSON.stringify({ v: 1, at: moment(0).at, birth: 1, ...message })), true)
    const full = { seq: 1, link: null, speed: {}, throttling: { isThrottled: true, causes: ['x'.repeat(500)] } }
    expect(read(full).kind).toBe('message')
    expect(read({ base: 1, set: { errors: 'y'.repeat(400) } })).toMatchObject({ kind: 'unreadable', reason: /limit is 1000/ })
    expect(read({ base: 1, set: { speed: null } })).toMatchObject({ kind: 'unreadable', reason: /speed/ })
    expect(read({ base: 1, set: [] })).toMatchObject({ kind: 'unreadable', reason: /set/ })
    expect(read({ base: 1, set: { birth: 9, v: 2, seq: 5 } })).toMatchObject({ message: { telemetry: { v: 1, birth: 1 } } })
  })
})
