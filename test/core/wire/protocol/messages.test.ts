import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  BridgeState,
  DeviceState,
  DeviceTelemetry,
  sessionBits,
  sessionHex,
  ToBridge,
  ToDevice,
} from '../../../../core/wire/protocol/messages.ts'

const modelId = 'ab'.repeat(32)
const at = '2026-01-02T03:04:05.678Z'

describe('messages', () => {
  it.each([
    [DeviceState, { v: 1, state: 'ready', birth: 3, at, agent: '0.1.0', modelId }],
    [BridgeState, { v: 1, state: 'ready', birth: 1, at, data: 'ws://127.0.0.1:7070/v1/data', sessions: 0 }],
    [
      DeviceTelemetry,
      {
        v: 1,
        at,
        birth: 3,
        link: { upBytesPerS: 1e5, downBytesPerS: null, rttMs: 0.4, bridge: 'bridge-1' },
        speed: { prefillTokensPerS: 900, draftStepMs: null },
      },
    ],
    [DeviceTelemetry, { v: 1, at, birth: 3, link: null, speed: { prefillTokensPerS: null, draftStepMs: null } }],
    [ToDevice, { type: 'welcome', v: 1, bridge: 'bridge-1', modelId }],
    [ToDevice, { type: 'welcome', v: 1, bridge: 'bridge-1', modelId, probeBytes: 32_768 }],
    [ToBridge, { type: 'hello', v: 1, device: 'jetson-01', birth: 1 }],
    [ToBridge, { type: 'open', request: 4, modelId }],
    [ToBridge, { type: 'open', request: 5, modelId, resume: { handle: 'cd'.repeat(16), length: 40 } }],
    [ToBridge, { type: 'close', session: '00000000000000ff', keep: 40 }],
    [ToDevice, { type: 'kept', session: '00000000000000ff', handle: 'cd'.repeat(16) }],
    [ToBridge, { type: 'rates', upBytesPerS: 1e6, prefillTokensPerS: 900 }],
    [
      ToDevice,
      {
        type: 'opened',
        request: 4,
        session: '00000000000000ff',
        epoch: 1,
        held: 0,
        moved: false,
        chunkTokens: 128,
        frameTokens: 512,
        draftLimit: 8,
      },
    ],
    [ToDevice, { type: 'advice', session: '00000000000000ff', chunkTokens: 64 }],
    [ToDevice, { type: 'refused', request: 4, code: 'SESSION_REFUSED', message: 'full', retryAfterMs: 100 }],
  ])('drop what a newer release adds (%#)', (schema, message) => {
    expect(schema.parse({ ...message, addedLater: { deep: [1] } })).toEqual(message)
  })

  it('of telemetry lose only the section that is invalid', () => {
    const rest = { v: 1, at, birth: 3, link: null, speed: { prefillTokensPerS: null, draftStepMs: null }, fan: null } as const
    const disk = { totalBytes: 2, freeBytes: 1 }
    const read = DeviceTelemetry.parse({ ...rest, disk, battery: { level: 1 }, load: { cpuPercent: 140 } })
    expect(read).toEqual({ ...rest, disk })
    expect(JSON.stringify(read)).not.toMatch(/battery|load/)
  })

  it('of an unknown version are rejected', () => {
    expect(DeviceState.safeParse({ v: 2, state: 'ready', birth: 1, at }).success).toBe(false)
    expect(ToBridge.safeParse({ type: 'hello', v: 2, device: 'jetson-01', birth: 1 }).success).toBe(false)
  })

  it('reject other values', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(ToBridge.safeParse(value).success).toBe(false)
        expect(ToDevice.safeParse(value).success).toBe(false)
        expect(DeviceState.safeParse(value).success).toBe(false)
        expect(DeviceTelemetry.safeParse(value).success).toBe(false)
      }),
    )
  })

  it('encode session ids as 16 hex digits and decode them', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), (session) => {
        expect(sessionHex(session)).toMatch(/^[0-9a-f]{16}$/)
        expect(sessionBits(sessionHex(session))).toBe(session)
      }),
    )
  })
})
