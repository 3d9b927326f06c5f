import { describe, expect, it } from 'vitest'
import { StateMonitor } from '../../../../../core/policy/estimate/state-monitor.ts'
import type { Wire } from '../../../../../core/wire/protocol/frame.ts'
import { codedBytes, typicalSize } from '../../../../../core/wire/protocol/state-coding.ts'
import { Simulation } from '../../../../../lab/simulate/kernel/simulation.ts'
import { HatDevice } from '../../../../../lab/simulate/modes/hat/hat-device.ts'
import { SimulatedSession } from '../../../../../lab/simulate/modes/hat/simulated-session.ts'
import type { EngineRows, SimulatedEngineSession } from '../../../../../lab/simulate/serving/engine.ts'
import type { SimulatedDevice } from '../../../../../lab/simulate/world/simulated-device.ts'
import { SimulatedLink } from '../../../../../lab/simulate/world/simulated-link.ts'
import { stepOf } from '../../../../support/steps.ts'

const width = 98
/** 200 bytes of a state in fp16, with 40 of a frame. */
const fp16 = (rows: number) => 40 + 196 * rows
const int8 = (rows: number) => 40 + 102 * rows
const message = 128

interface World {
  readonly wire?: Wire
  readonly bytesPerS?: number
  readonly cloudS?: number
}

/** An open session over a link with a round trip of 100 ms. */
function open({ wire = 'fp16', bytesPerS = 1e6, cloudS = 0.01 }: World = {}) {
  const simulation = new Simulation(1)
  const rate = { intervalMs: Number.POSITIVE_INFINITY, bytesPerS: [bytesPerS] }
  const link = new SimulatedLink(simulation, { up: rate, down: rate, rttMs: 100 }, simulation.random('loss'))
  const device = new HatDevice({ link } as unknown as SimulatedDevice)
  const calls: string[] = []
  const engine = {
    contextLength: 0,
    send({ rows, done }: EngineRows) {
      calls.push(`send ${rows}`)
      engine.contextLength += rows
      simulation.after(1_000 * cloudS, () => done(cloudS))
    },
    truncate(length: number) {
      calls.push(`truncate ${length}`)
      engine.contextLength = length
    },
    close: () => void calls.push('close'),
  } satisfies SimulatedEngineSession
  const monitor = new StateMonitor()
  const session = new SimulatedSession({
    simulation,
    device,
    held: 0,
    openSession: () => engine,
    refused() {},
    chunks: { monitor, limits: { minTokens: 4, maxTokens: 512 }, pipeline: 1, initialTokens: 64 },
    frameTokens: 512,
    draftLimit: 8,
    width,
    wire,
    transferred() {},
  })
  session.open()
  const repliedMs: number[] = []
  session.exchange({ from: 0, to: 1, returned: 1 }, () => repliedMs.push(simulation.nowMs))
  const advance = () => simulation.advance(10_000)
  advance()
  link.bytes.up = 0
  link.bytes.down = 0
  engine.truncate(0)
  calls.length = 0
  return { link, device, calls, monitor, session, repliedMs, advance }
}

it('opens a session without a round trip: rows follow the message', () => {
  const [repliedMs] = open({ cloudS: 0 }).repliedMs
  expect(repliedMs).toBeGreaterThan(100)
  expect(repliedMs).toBeLessThan(102)
})

describe('a frame', () => {
  it('has its states and its reply theirs, padded to as many rows where that is wanted', () => {
    const { link, session, advance } = open()
    session.exchange({ from: 0, to: 5, returned: 1 }, () => {})
    advance()
    expect(link.bytes).toEqual({ up: fp16(5), down: fp16(1) })
    session.exchange({ from: 5, to: 7, returned: 2, paddedRows: 9 }, () => {})
    advance()
    expect(link.bytes).toEqual({ up: fp16(5) + fp16(9), down: fp16(1) + fp16(9) })
  })

  it('brings int8 states up, and fp16 ones down', () => {
    const { link, session, advance } = open({ wire: 'int8' })
    session.exchange({ from: 0, to: 5, returned: 5 }, () => {})
    advance()
    expect(link.bytes).toEqual({ up: int8(5), down: fp16(5) })
  })

  it('brings coded states up and down', () => {
    const { link, session, advance } = open({ wire: 'fp16c' })
    session.exchange({ from: 0, to: 5, returned: 1, paddedRows: 9 }, () => {})
    advance()
    const coded = 40 + codedBytes(typicalSize(width), 9)
    expect(link.bytes).toEqual({ up: coded, down: coded })
    expect(coded).toBeLessThan(0.9 * fp16(9))
  })

  it('says where its time went', () => {
    const { session, advance } = open({ cloudS: 0.25 })
    let told = { upS: 0, cloudS: 0, downS: 0 }
    session.exchange({ from: 0, to: 5, returned: 1 }, (exchange) => {
      told = exchange
    })
    advance()
    expect(told.upS).toBeCloseTo(0.05 + fp16(5) / 1e6, 9)
    expect(told.cloudS).toBe(0.25)
    expect(told.downS).toBeCloseTo(0.05 + fp16(1) / 1e6, 9)
  })

  it('replaces the rows of a draft that were rejected', () => {
    const { calls, session, advance } = open()
    session.exchange({ from: 0, to: 6, returned: 6 }, () => {})
    advance()
    session.exchange({ from: 4, to: 7, returned: 3 }, () => {})
    advance()
    session.exchange({ from: 7, to: 8, returned: 1 }, () => {})
    session.close()
    advance()
    expect(calls).toEqual(['send 6', 'truncate 4', 'send 3', 'send 1', 'close'])
  })
})

describe('advice on chunks', () => {
  it('follows the rows of prompts, and those of drafts cost no message', () => {
    const { link, device, monitor, session, advance } = open()
    device.speed.recordPrefill(1_000, 0.1)
    const exchange = (rows: number, returned: number) => {
      link.bytes.down = 0
      session.exchange({ from: 0, to: rows, returned }, () => {})
      advance()
      return link.bytes.down - fp16(returned)
    }
    exchange(400, 10)
    for (const tokens of [1, 512]) monitor.record(stepOf(tokens), 0.005 + 1e-4 * tokens)
    expect([exchange(400, 400), session.chunkTokens]).toEqual([0, 64])
    expect(exchange(400, 10)).toBe(message)
    expect(session.chunkTokens).not.toBe(64)
    expect(exchange(400, 10)).toBe(0)
  })
})
