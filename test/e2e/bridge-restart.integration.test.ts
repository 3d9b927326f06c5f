import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { readSse } from '../../core/wire/openai/sse-reader.ts'
import { Cluster } from '../../lab/cluster/cluster.ts'
import { buildTextBundle } from '../support/agent-world.ts'
import { brim } from '../support/brim.ts'
import { captureIo } from '../support/captured-io.ts'
import { postJson } from '../support/post-json.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'

const dir = shared(tempDir)
const cluster = shared(async () => Cluster.create({ bundle: await buildTextBundle(dir.path), env: process.env }))
const bridge = shared(() => cluster.startBridge())
const agent = shared(() => cluster.startAgent({ id: 'jetson-01', bridges: [bridge.ready.mqttUrl] }))

const ask = (fields: object = {}) =>
  postJson(`${agent.ready.apiUrl}/v1/completions`, { prompt: [5, 6, 7], max_tokens: 4, temperature: 0, ...fields })
const deviceState = async () => {
  const { devices } = (await (await fetch(`${bridge.ready.httpUrl}/v1/devices`)).json()) as { devices: { state: string }[] }
  return devices[0]?.state
}

describe('a bridge that is killed and started again', () => {
  it('has its device back within seconds, though an application asked throughout the outage', { timeout: 60_000 }, async () => {
    await expect.poll(deviceState).toBe('ready')
    await bridge.kill()
    const asking = { goOn: true, failed: 0 }
    const application = (async () => {
      for (; asking.goOn; await sleep(100)) if ((await ask()).status === 503) asking.failed += 1
    })()
    await expect.poll(() => asking.failed).toBeGreaterThan(10)
    asking.goOn = false
    await application
    await bridge.restart()
    // If the failed requests counted in the back-off, its next wait would be minutes.
    await expect.poll(deviceState).toBe('ready')
    expect((await ask()).status).toBe(200)
  })

  it('answers the first request after its return at once', async () => {
    await bridge.restart()
    const startedMs = performance.now()
    expect((await ask()).status).toBe(200)
    // The back-off of an outage would make it wait for minutes.
    expect(performance.now() - startedMs).toBeLessThan(10_000)
  })

  it('is noticed within 3 s by a stream, whose answer then continues', async () => {
    const response = await ask({ max_tokens: 400, stream: true })
    const noticesMs: number[] = []
    let killedMs = Number.POSITIVE_INFINITY
    let restarted: Promise<void> | undefined
    let events = 0
    let last = ''
    const onNotice = (text: string) => {
      expect(text).toMatch(/waits for a bridge/)
      noticesMs.push(performance.now())
      restarted = bridge.restart()
    }
    for await (const data of readSse(response.body!, { onComment: onNotice })) {
      if (data !== '[DONE]') last = data
      events += 1
      if (events !== 2) continue
      killedMs = performance.now()
      void bridge.kill()
    }
    await restarted
    expect(noticesMs).toHaveLength(1)
    expect(noticesMs[0]! - killedMs).toBeLessThan(3_000)
    expect(JSON.parse(last)).toMatchObject({ brim: { failovers: 1 } })
  })

  it('makes brim ask say that it waits', async () => {
    const { io, out, err } = captureIo()
    let restarted: Promise<void> | undefined
    const restartOnceNoticed = async () => {
      await bridge.kill()
      await expect.poll(err).toMatch(/the answer waits for a bridge/)
      await bridge.restart()
    }
    const write = (text: string) => {
      io.write(text)
      restarted ??= restartOnceNoticed()
    }
    await brim(['ask', 'Hello', '--max-tokens', '400', '--api', agent.ready.apiUrl], { ...io, write })
    await restarted
    expect(err()).toMatch(/1 failover/)
    expect(out().length).toBeGreaterThan(20)
  })
})
