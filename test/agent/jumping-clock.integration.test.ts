import { join } from 'node:path'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { startAgent } from '../../agent/agent.ts'
import { type Clock, systemClock } from '../../core/kit/base/clock.ts'
import { readSse } from '../../core/wire/openai/sse-reader.ts'
import { portOf, startRelay } from '../../lab/cluster/relay.ts'
import { startAgentWorld } from '../support/agent-world.ts'
import { startTestBridge } from '../support/bridge.ts'
import { postJson } from '../support/post-json.ts'
import { shared } from '../support/shared.ts'

const world = shared(startAgentWorld)
afterEach(() => vi.useRealTimers())

const dayMs = 86_400_000

/** Sleeps take their real time, but `nowMs` jumps. */
function jumpingClock(): Clock & { jump(ms: number): void } {
  let offsetMs = 0
  return {
    nowMs: () => systemClock.nowMs() + offsetMs,
    sleep: systemClock.sleep,
    jump(ms) {
      offsetMs += ms
    },
  }
}

interface Report {
  readonly tokenIds: readonly number[]
  readonly failovers: number
}

async function ask(apiUrl: string, onPiece: (pieces: number) => void = () => {}): Promise<Report> {
  const response = await postJson(`${apiUrl}/v1/completions`, {
    prompt: Array.from({ length: 50 }, (_, i) => 3 + i),
    max_tokens: 60,
    temperature: 0,
    stream: true,
    brim: { token_ids: true },
  })
  let last: { brim?: Report } = {}
  let pieces = 0
  for await (const data of readSse(response.body!)) {
    pieces += 1
    if (data !== '[DONE]') last = JSON.parse(data)
    onPiece(pieces)
  }
  return last.brim!
}

/** A device with the test's clock and a separate bridge, whose data plane it reaches through a relay. */
async function startDevice(id: string, clock: Clock) {
  const relay = await startRelay(0)
  const settings = { bundle: world.bundle, threads: 1, logLevel: 'silent' } as const
  const stateDir = join(world.dir, `bridge-of-${id}`)
  const bridge = await startTestBridge({ bundle: world.bundle, stateDir, dataUrl: `ws://127.0.0.1:${relay.port}/v1/data` })
  relay.target = portOf(bridge.httpUrl)
  const device = { ...settings, id, bridges: [bridge.mqttUrl], stateDir: join(world.dir, id), apiPort: 0 }
  const agent = await startAgent(device, clock)
  return {
    apiUrl: agent.apiUrl,
    relay,
    async [Symbol.asyncDispose]() {
      await agent.close()
      await bridge.close()
      await relay[Symbol.asyncDispose]()
    },
  }
}

describe.each([
  ['forward', dayMs],
  ['back', -dayMs],
])('a device whose clock jumps %s by a day, repeatedly', (direction, ms) => {
  it('returns the same answer over the same session', async () => {
    const { tokenIds } = await ask(world.agent.apiUrl)
    const clock = jumpingClock()
    vi.useFakeTimers({ toFake: ['Date'] })
    await using device = await startDevice(`jumps-${direction}`, clock)
    const report = await ask(device.apiUrl, () => {
      clock.jump(ms)
      vi.setSystemTime(Date.now() + ms)
    })
    expect(report).toMatchObject({ tokenIds, failovers: 0 })
  })

  it('continues with the same tokens after its link was cut, without giving up early', async () => {
    const { tokenIds } = await ask(world.agent.apiUrl)
    const clock = jumpingClock()
    const sleep = clock.sleep.bind(clock)
    let sleepsAfterCut = Number.NaN
    let restore = () => {}
    // The clock jumps in every wait, and the bridge is reachable again after the third.
    clock.sleep = async (sleepMs, signal) => {
      clock.jump(ms)
      await sleep(sleepMs, signal)
      sleepsAfterCut += 1
      if (sleepsAfterCut === 3) restore()
    }
    await using device = await startDevice(`jumps-${direction}-cut`, clock)
    const { relay } = device
    const { target } = relay
    const report = await ask(device.apiUrl, (pieces) => {
      if (pieces !== 3) return
      relay.target = 1
      relay.cut()
      sleepsAfterCut = 0
      restore = () => {
        relay.target = target
      }
    })
    expect(report).toMatchObject({ tokenIds, failovers: 1 })
  })
})
