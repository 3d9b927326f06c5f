import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { startAgent } from '../../../agent/agent.ts'
import type { AgentSettings } from '../../../agent/config.ts'
import type { BridgeSettings } from '../../../cloud-bridge/config.ts'
import { type AnswerBody, streamAnswerFrom } from '../../../core/wire/openai/client.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { connectExpandingDevice, type DeviceRun } from '../../support/expanding-device.ts'
import { body, isProfiled, lines, openUpstream, picePrompts, textOf, whole } from '../../support/sketch-world.ts'
import { tempDir } from '../../support/temp-dir.ts'

const never = new AbortController().signal

async function openWorld(settings: Partial<BridgeSettings> = {}) {
  const dir = tempDir()
  const upstream = await openUpstream()
  const bridge = await startTestBridge({
    stateDir: join(dir.path, 'bridge'),
    upstream: { url: upstream.url, model: 'llm' },
    picePrompts: picePrompts(dir.path),
    ...settings,
  })
  const devices: AsyncDisposable[] = []
  return {
    bridge,
    upstream,
    async device(id: string, onRun: (run: DeviceRun) => unknown, tpotMs?: number) {
      const device = await connectExpandingDevice(bridge.mqttUrl, id, onRun, tpotMs)
      devices.push(device)
      await isProfiled(bridge.httpUrl, id)
      return device
    },
    ask(mode?: 'auto' | 'sketch' | 'full', signal = never) {
      const sketches: (readonly string[])[] = []
      const { messages } = body
      const asked = { messages, ...(mode && { brim: { mode } }) }
      const answer = streamAnswerFrom({ server: 'bridge', url: bridge.httpUrl }, asked, signal, {
        onSketch: (left) => sketches.push(left),
      })
      return answer.then(({ report, text }) => ({ text, sketches, sources: report.sources, pice: report.pice }))
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(devices.map((device) => device[Symbol.asyncDispose]()))
      await bridge.close()
      await upstream[Symbol.asyncDispose]()
      dir[Symbol.dispose]()
    },
  }
}

describe('answers of a bridge that devices expand', () => {
  it('come from a device, with the sketch first, and the report says from which', async () => {
    await using world = await openWorld()
    await world.device('jetson-01', (run) => run.succeed(), 1_000)
    const { text, sketches, sources, pice } = await world.ask('sketch')
    expect(text).toBe(textOf(['jetson-01', 'jetson-01', 'jetson-01']))
    expect(sketches.slice(0, 4)).toEqual([lines.slice(0, 1), lines.slice(0, 2), lines, lines.slice(1)])
    expect(sketches.at(-1)).toEqual([])
    expect(sources).toMatchObject([{ source: 'device', device: 'jetson-01', model: 'slm' }])
    expect(pice).toMatchObject({ mode: 'sketch', reason: null, sketchLines: 3, expandedSentences: 3, completedSentences: 0 })
    expect(await world.ask('full')).toMatchObject({ text: whole, sketches: [], pice: undefined })
    // By the plan: the model writes the answer sooner than so slow a device.
    expect(await world.ask()).toMatchObject({ text: whole, pice: { mode: 'full' } })
    const metrics = await (await fetch(`${world.bridge.httpUrl}/metrics`)).text()
    expect(metrics).toContain('brim_sketch_sentences_total{model_name="llm",writer="device"} 3')
  })

  it('are the plan of the bridge where it says so, also for clients that know nothing of sketches', async () => {
    await using world = await openWorld({ answerMode: 'sketch' })
    await world.device('jetson-01', (run) => run.succeed())
    const { text, sketches, pice } = await world.ask()
    expect([text, sketches, pice?.mode]).toEqual([textOf(['jetson-01', 'jetson-01', 'jetson-01']), [], 'sketch'])
  })

  it('are full where no device expands', async () => {
    await using world = await openWorld()
    for (const mode of ['sketch', 'auto'] as const)
      expect(await world.ask(mode)).toMatchObject({ text: whole, pice: { mode: 'full' } })
  })

  it('are completed by the model when a device is gone in the middle', async () => {
    await using world = await openWorld({ limits: { expansionS: 2, expansionDeviceWaitS: 0.2 } })
    const device = await world.device('jetson-01', async ({ report }) => {
      const sentence = { sketch: 0, candidate: 0, model: 'slm', tokens: 6, meanLog2Probability: -1 }
      await report({ type: 'running' }, { type: 'sentence', ...sentence, sentence: 1, text: 'knead it well by jetson-01.' })
      device.vanish()
    })
    const { text, pice } = await world.ask('sketch')
    expect(text).toContain('knead it well by jetson-01.')
    expect(text).toContain('bake for long by the model.')
    expect(pice).toMatchObject({ mode: 'sketch', reason: 'expansion', expandedSentences: 1, completedSentences: 2 })
  })

  it('are no longer expanded once their client has left', async () => {
    await using world = await openWorld()
    const stop = new AbortController()
    const device = await world.device('jetson-01', async ({ report }) => {
      await report({ type: 'running' })
      stop.abort(new Error('left'))
    })
    await expect(world.ask('sketch', stop.signal)).rejects.toThrow('left')
    await expect.poll(() => device.canceled.length).toBe(1)
  })
})

describe('a device that lets its bridge see questions (--server bridge)', () => {
  it('gets an answer that other devices expand, without a model of its own', async () => {
    await using world = await openWorld()
    await world.device('jetson-01', (run) => run.succeed())
    await using agent = await openAgent(world.bridge.mqttUrl, { at: 'bridge' })
    const asked = { messages: body.messages, brim: { mode: 'sketch' as const } }
    const { text, report } = await agent.ask(asked)
    expect(text).toBe(textOf(['jetson-01', 'jetson-01', 'jetson-01']))
    expect(report.disco?.mode).toBe('sketch')
    const models = (await (await fetch(`${agent.url}/v1/models`)).json()) as { data: { brim: { modes: string[] } }[] }
    expect(models.data[0]!.brim.modes).toContain('sketch')
  })

  it('is asked for no sketch where the bridge may not see questions', async () => {
    await using world = await openWorld()
    await using agent = await openAgent(world.bridge.mqttUrl, { at: world.upstream.url, model: 'llm' })
    const refused = agent.ask({ messages: body.messages, brim: { mode: 'sketch' } })
    await expect(refused).rejects.toMatchObject({ code: 'REQUEST_INVALID', hint: expect.stringContaining('--server bridge') })
  })
})

async function openAgent(mqttUrl: string, server: NonNullable<AgentSettings['server']>) {
  const dir = tempDir()
  const agent = await startAgent({ id: 'asking', stateDir: dir.path, bridges: [mqttUrl], apiPort: 0, server, logLevel: 'silent' })
  await expect.poll(() => agent.status).toContain('connected')
  return {
    url: agent.apiUrl,
    ask: (asked: AnswerBody) => streamAnswerFrom({ server: 'agent', url: agent.apiUrl }, asked, never),
    async [Symbol.asyncDispose]() {
      await agent.close()
      dir[Symbol.dispose]()
    },
  }
}
