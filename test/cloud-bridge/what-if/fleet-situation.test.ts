import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fleetSituation } from '../../../cloud-bridge/what-if/fleet-situation.ts'
import type { LoggedStep } from '../../../core/wire/protocol/http/bridge.ts'
import type { Device } from '../../../core/wire/protocol/http/devices.ts'
import { WhatIfSituation } from '../../../core/wire/protocol/http/what-if.ts'
import { parseRequestTrace } from '../../../lab/simulate/traces/request-trace.ts'

interface Measured {
  readonly up?: number | null
  readonly rttMs?: number | null
  readonly slm?: string
  readonly decode?: number
  readonly prefill?: number
  readonly state?: Device['state']
}

const device = ({ up = null, rttMs = null, slm, decode, prefill, state = 'ready' }: Measured = {}) =>
  ({
    id: 'd',
    state,
    telemetry: {
      link: { upBytesPerS: up, downBytesPerS: up, rttMs, bridge: 'b' },
      bundles: { llm: null, slm: slm === undefined ? null : { name: slm, modelId: 'm' } },
      answers: {
        underWay: 0,
        decodeTokensPerS: slm && decode ? { [slm]: decode } : {},
        prefillTokensPerS: slm && prefill ? { [slm]: prefill } : {},
      },
    },
  }) as unknown as Device

const step = (items: number, tokens: number): LoggedStep => ({
  ...{ index: 0, startMs: 0, items, tokens, computeMs: 20, predictedMs: null },
})
const nothing = { devices: [], sizes: [], steps: [], model: undefined }
const factOf = (of: ReturnType<typeof fleetSituation>, option: string) => of.facts.find((fact) => fact.option === option)!

describe('the situation of a fleet', () => {
  it('of which nothing is known is assumed, without machines', () => {
    const { facts, trace, steps, requests } = fleetSituation(nothing)
    expect(new Set(facts.map(({ value, basis }) => `${basis} ${value}`))).toEqual(new Set(['assumed null']))
    expect({ trace, steps, requests }).toEqual({ trace: 'arrival,prompt tokens,output tokens\n', steps: {}, requests: 0 })
  })

  it('is that of connected devices: their number, and the medians of what they measured', () => {
    const devices = [
      device({ up: 1_000_000, rttMs: 10 }),
      device({ up: 3_000_000, rttMs: 30 }),
      device({ up: 2_000_000, rttMs: 20 }),
      device(),
      device({ up: 9e9, state: 'lost' }),
      device({ up: 9e9, state: null }),
    ]
    const situation = fleetSituation({ ...nothing, devices })
    expect(factOf(situation, 'devices')).toMatchObject({ value: '4', basis: 'measured' })
    expect(factOf(situation, 'up')).toMatchObject({ value: '16', note: 'median of 3 devices' })
    expect(factOf(situation, 'rtt').value).toBe('20')
  })

  it('names models as presets are named', () => {
    const nameOf = (model: string) => factOf(fleetSituation({ ...nothing, model }), 'model').value
    expect(nameOf('Qwen2.5-0.5B-Instruct')).toBe('qwen2.5-0.5b')
    expect(nameOf('vicuna-7b')).toBe('vicuna-7b')
    expect(nameOf('Qwen1.5-0.5B-Chat-GGUF')).toBe('qwen1.5-0.5b')
    expect(nameOf('--model x')).toBe('model-x')
  })

  it('makes a machine of the rates of devices that have measured both with the small model of most', () => {
    const devices = [
      device({ slm: 'a', decode: 20, prefill: 200 }),
      device({ slm: 'a', decode: 40, prefill: 400 }),
      device({ slm: 'a', decode: 1_000 }),
      device({ slm: 'b', decode: 1, prefill: 1 }),
    ]
    const situation = fleetSituation({ ...nothing, devices })
    expect(factOf(situation, 'small-model').value).toBe('a')
    expect(factOf(situation, 'board')).toMatchObject({ value: 'device.yaml', basis: 'measured' })
    expect(factOf(situation, 'board').note).toContain('300.0 tokens/s of a prompt, 30.0 of an answer with a: median of 2 devices')
    expect(situation.steps.device).toBe(`rows,context,seconds,streams\n1,0,${1 / 30},1\n128,0,${128 / 300},1\n`)
  })

  it('makes a machine of the bridge’s steps once there are enough, prompts from their beginning, others in the middle', () => {
    const sizes = [{ atMs: 0, promptTokens: 100, outputTokens: 50 }]
    const steps = [...Array.from({ length: 49 }, () => step(4, 8)), step(1, 128)]
    expect(
      fleetSituation({ ...nothing, sizes, steps, model: 'm' })
        .steps.bridge?.split('\n')
        .slice(-3),
    ).toEqual(['2,125,0.02,4', '128,0,0.02,1', ''])
    expect(fleetSituation({ ...nothing, sizes, steps: steps.slice(1), model: 'm' }).steps.bridge).toBeUndefined()
    expect(fleetSituation({ ...nothing, sizes, steps }).steps.bridge).toBeUndefined()
  })

  it('writes the latest requests as the simulator reads them, and facts that the API may send', () => {
    const size = fc.record({
      atMs: fc.double({ min: 0, max: 1e9, noNaN: true }),
      promptTokens: fc.nat(100_000),
      outputTokens: fc.integer({ min: 1, max: 10_000 }),
    })
    const sorted = fc.array(size, { minLength: 1, maxLength: 600 }).map((all) => all.sort((a, b) => a.atMs - b.atMs))
    fc.assert(
      fc.property(sorted, (sizes) => {
        const { trace, steps: _, ...situation } = fleetSituation({ ...nothing, sizes })
        expect(WhatIfSituation.parse(situation)).toEqual(situation)
        const read = parseRequestTrace(trace, 'requests.csv')
        const latest = sizes.slice(-500)
        expect(read.map((each) => each.outputTokens)).toEqual(latest.map((each) => each.outputTokens))
        for (const [at, { atMs }] of read.entries()) expect(atMs).toBeCloseTo(latest[at]!.atMs - latest[0]!.atMs, -1)
      }),
      { numRuns: 25 },
    )
  })
})
