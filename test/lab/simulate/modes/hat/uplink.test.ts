import { describe, expect, it } from 'vitest'
import { StateMonitor } from '../../../../../core/policy/hat/state-monitor.ts'
import type { Wire } from '../../../../../core/protocol/frame.ts'
import { Simulation } from '../../../../../lab/simulate/kernel/simulation.ts'
import { type HatDevice, hatDevice } from '../../../../../lab/simulate/modes/hat/hat-device.ts'
import { Uplink } from '../../../../../lab/simulate/modes/hat/uplink.ts'
import type { EngineRows, EngineSession } from '../../../../../lab/simulate/serving/engine.ts'
import type { SimulatedDevice } from '../../../../../lab/simulate/world/simulated-device.ts'
import { SimulatedLink } from '../../../../../lab/simulate/world/simulated-link.ts'

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
  const device: HatDevice = hatDevice({ link } as unknown as SimulatedDevice)
  const calls: string[] = []
  const session = {
    contextLength: 0,
    send({ rows, done }: EngineRows) {
      calls.push(`send ${rows}`)
      session.contextLength += rows
      simulation.after(1_000 * cloudS, () => done(cloudS))
    },
    truncate(length: number) {
      calls.push(`truncate ${length}`)
      session.contextLength = length
    },
    close: () => void calls.push('close'),
  } satisfies EngineSession
  const monitor = new StateMonitor()
  const uplink = new Uplink({
    simulation,
    device,
    openSession: () => session,
    refused() {},
    chunks: { monitor, limits: { minTokens: 4, maxTokens: 512 }, pipeline: 1, initialTokens: 64 },
    width,
    wire,
    transferred() {},
  })
  const opened: number[] = []
  uplink.open(() => opened.push(simulation.nowMs))
  const advance = () => simulation.advance(10_000)
  advance()
  link.bytes.up = 0
  link.bytes.down = 0
  return { simulation, link, device, calls, session, monitor, uplink, opened, advance }
}

it('opens a session with a round trip', () => {
  expect(open().opened[0]).toBeCloseTo(100 + 2 * 0.128, 6)
})

describe('a frame', () => {
  it('has its states and its reply theirs, padded to as many rows where that is wanted', () => {
    const { link, uplink, advance } = open()
    uplink.send({ from: 0, rows: 5, returned: 1 }, () => {})
    advance()
    expect(link.bytes).toEqual({ up: fp16(5), down: fp16(1) })
    uplink.send({ from: 5, rows: 2, returned: 2, paddedRows: 9 }, () => {})
    advance()
    expect(link.bytes).toEqual({ up: fp16(5) + fp16(9), down: fp16(1) + fp16(9) })
  })

  it('brings int8 states up, and fp16 ones down', () => {
    const { link, uplink, advance } = open({ wire: 'int8' })
    uplink.send({ from: 0, rows: 5, returned: 5 }, () => {})
    advance()
    expect(link.bytes).toEqual({ up: int8(5), down: fp16(5) })
  })

  it('says where its time went', () => {
    const { uplink, advance } = open({ cloudS: 0.25 })
    let told = { upS: 0, cloudS: 0, downS: 0 }
    uplink.send({ from: 0, rows: 5, returned: 1 }, (exchange) => {
      told = exchange
    })
    advance()
    expect(told.upS).toBeCloseTo(0.05 + fp16(5) / 1e6, 9)
    expect(told.cloudS).toBe(0.25)
    expect(told.downS).toBeCloseTo(0.05 + fp16(1) / 1e6, 9)
  })

  it('replaces the rows of a draft that were rejected', () => {
    const { calls, uplink, advance } = open()
    uplink.send({ from: 0, rows: 6, returned: 6 }, () => {})
    advance()
    uplink.send({ from: 4, rows: 3, returned: 3 }, () => {})
    advance()
    uplink.send({ from: 7, rows: 1, returned: 1 }, () => {})
    uplink.close()
    advance()
    expect(calls).toEqual(['send 6', 'truncate 4', 'send 3', 'send 1', 'close'])
  })
})

describe('back-pressure', () => {
  it('forgets the frames that were replied to, however many they were', () => {
    const { uplink, advance } = open()
    let free = 0
    for (let at = 0; at < 50; at += 1) {
      uplink.send({ from: 50 * at, rows: 50, returned: 1 }, () => {})
      advance()
    }
    // β_up is known: 110 ms and more of 1 MB/s are far more than two frames.
    for (let at = 0; at < 5; at += 1)
      uplink.awaitCapacity(50, () => {
        free += 1
        uplink.send({ from: 2_500 + 50 * at, rows: 50, returned: 1 }, () => {})
      })
    expect(free).toBe(5)
  })

  it('lets a frame of any size wait beyond what the link holds, and no more', () => {
    const { uplink, advance } = open({ bytesPerS: 10_000 })
    uplink.send({ from: 0, rows: 10, returned: 1 }, () => {})
    advance()
    // The link holds 1.1 kB or so: six rows.
    const freeAfter = (rows: number) => {
      let isFree = false
      uplink.awaitCapacity(rows, () => {
        isFree = true
      })
      return isFree
    }
    uplink.send({ from: 10, rows: 10, returned: 1 }, () => {})
    expect(freeAfter(1)).toBe(true)
    uplink.send({ from: 20, rows: 10, returned: 1 }, () => {})
    expect([freeAfter(20), freeAfter(5)]).toEqual([true, false])
  })
})

describe('advice on chunks', () => {
  it('follows the rows of prompts, and those of drafts cost no message', () => {
    const { link, device, monitor, uplink, advance } = open()
    device.speed.recordPrefill(1_000, 0.1)
    const exchange = (rows: number, returned: number) => {
      link.bytes.down = 0
      uplink.send({ from: 0, rows, returned }, () => {})
      advance()
      return link.bytes.down - fp16(returned)
    }
    exchange(400, 10)
    for (const tokens of [1, 512]) monitor.record(tokens, 0.005 + 1e-4 * tokens)
    expect([exchange(400, 400), uplink.chunkTokens]).toEqual([0, 64])
    expect(exchange(400, 10)).toBe(message)
    expect(uplink.chunkTokens).not.toBe(64)
    expect(exchange(400, 10)).toBe(0)
  })
})
