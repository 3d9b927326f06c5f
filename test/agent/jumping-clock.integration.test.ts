import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { startAgent } from '../../agent/agent.ts'
import { startBridge } from '../../cloud-bridge/bridge.ts'
import { type Clock, systemClock } from '../../core/base/clock.ts'
import { readSse } from '../../core/openai/sse-reader.ts'
import { portOf, startRelay } from '../../lab/cluster/relay.ts'
import { type AgentWorld, startAgentWorld } from '../support/agent-world.ts'

let world: AgentWorld
beforeAll(async () => {
  world = await startAgentWorld()
})
afterAll(() => world[Symbol.asyncDispose]())
afterEach(() => {
  vi.useRealTimers()
})

const dayMs = 86_400_000

/** Time goes by as it should, but what it is said to be jumps. */
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

interface Told {
  readonly tokenIds: readonly number[]
  readonly failovers: number
}

async function ask(apiUrl: string, onPiece: (pieces: number) => void = () => {}): Promise<Told> {
  const response = await fetch(`${apiUrl}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      prompt: Array.from({ length: 50 }, (_, i) => 3 + i),
      max_tokens: 60,
      temperature: 0,
      stream: true,
      brim: { token_ids: true },
    }),
  })
  let last: { brim?: Told } = {}
  let pieces = 0
  for await (const data of readSse(response.body!)) {
    pieces += 1
    if (data !== '[DONE]') last = JSON.parse(data)
    onPiece(pieces)
  }
  return last.brim!
}

/** A device whose clock is the test's, at a bridge of its own behind a relay. */
async function startDevice(id: string, clock: Clock) {
  const relay = await startRelay(0)
  const settings = { bundle: world.bundle, threads: 1, logLevel: 'silent' } as const
  const bridge = await startBridge({
    ...settings,
    stateDir: join(world.dir, `bridge-of-${id}`),
    mqttPort: 0,
    httpPort: 0,
    dataUrl: `ws://127.0.0.1:${relay.port}/v1/data`,
  })
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
])('a device whose clock jumps %s a day, again and again', (direction, ms) => {
  it('returns the same answer over the same session', async () => {
    const { tokenIds } = await ask(world.agent.apiUrl)
    const clock = jumpingClock()
    vi.useFakeTimers({ toFake: ['Date'] })
    await using device = await startDevice(`jumps-${direction}`, clock)
    const told = await ask(device.apiUrl, () => {
      clock.jump(ms)
      vi.setSystemTime(Date.now() + ms)
    })
    expect(told).toMatchObject({ tokenIds, failovers: 0 })
  })

  it('continues with the same tokens after its link was cut, without giving up early', async () => {
    const { tokenIds } = await ask(world.agent.apiUrl)
    const clock = jumpingClock()
    const sleep = clock.sleep.bind(clock)
    // In every wait for the bridge to be back.
    clock.sleep = (sleepMs, signal) => {
      clock.jump(ms)
      return sleep(sleepMs, signal)
    }
    await using device = await startDevice(`jumps-${direction}-cut`, clock)
    const { relay } = device
    const back = relay.target
    const told = await ask(device.apiUrl, (pieces) => {
      if (pieces !== 3) return
      relay.target = 1
      relay.cut()
      setTimeout(() => {
        relay.target = back
      }, 300)
    })
    expect(told).toMatchObject({ tokenIds, failovers: 1 })
  })
})
