import { describe, expect, it } from 'vitest'
import { openDeviceModel } from '../../agent/hat/open-device-model.ts'
import type { BridgeState } from '../../core/wire/protocol/messages.ts'
import { bridgeStateTopic, deviceTopic } from '../../core/wire/protocol/topics.ts'
import { portOf, startRelay, through } from '../../lab/cluster/relay.ts'
import { webSocketPayloads } from '../../lab/cluster/web-socket-payloads.ts'
import { startAgentWorld } from '../support/agent-world.ts'
import { mqttClient, startBroker } from '../support/broker.ts'
import { postJson } from '../support/post-json.ts'

const question = 'Doctor Eleanora Vandermeer asked whether the biopsy of Thursday showed anything.'
const system = 'You are the confidential assistant of a hospital.'

/** Length of a run of ids that counts as a leak. */
const windowIds = 4
/** The chunk size of startAgentWorld's bridge. */
const chunkTokens = 16

/** Possible encodings of token ids: integer and float types, both byte orders, JSON. */
const encodings: Record<string, (ids: readonly number[]) => Buffer> = {
  uint16le: (ids) => numbers(ids, 2, (view, at, id) => view.setUint16(at, id, true)),
  uint16be: (ids) => numbers(ids, 2, (view, at, id) => view.setUint16(at, id)),
  int32le: (ids) => numbers(ids, 4, (view, at, id) => view.setInt32(at, id, true)),
  int32be: (ids) => numbers(ids, 4, (view, at, id) => view.setInt32(at, id)),
  float32le: (ids) => numbers(ids, 4, (view, at, id) => view.setFloat32(at, id, true)),
  int64le: (ids) => numbers(ids, 8, (view, at, id) => view.setBigInt64(at, BigInt(id), true)),
  int64be: (ids) => numbers(ids, 8, (view, at, id) => view.setBigInt64(at, BigInt(id))),
  json: (ids) => Buffer.from(ids.join(',')),
  spacedJson: (ids) => Buffer.from(ids.join(', ')),
}

function numbers(ids: readonly number[], size: number, write: (view: DataView, at: number, id: number) => void): Buffer {
  const bytes = Buffer.alloc(ids.length * size)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  ids.forEach((id, index) => {
    write(view, index * size, id)
  })
  return bytes
}

/** The encodings in which these ids occur in these bytes. */
function idsSeen(wire: Buffer, ids: readonly number[]): string[] {
  const windows = ids.slice(0, -windowIds + 1).map((_, at) => ids.slice(at, at + windowIds))
  return Object.entries(encodings).flatMap(([name, encode]) =>
    windows.some((window) => wire.includes(encode(window))) ? [name] : [],
  )
}

/** The words of these texts that occur in these bytes, as UTF-8, UTF-16 or base64 of the whole text. */
function wordsSeen(wire: Buffer, ...texts: string[]): string[] {
  const words = texts.flatMap((text) => text.split(/[^\p{L}\p{N}]+/u)).filter((word) => word.length >= 6)
  const base64 = texts.map((text) => Buffer.from(text).toString('base64').slice(0, 24))
  const needles = [...words, ...base64]
  return needles.filter((needle) => wire.includes(needle) || wire.includes(Buffer.from(needle, 'utf16le')))
}

describe('the network traffic of a private answer', () => {
  it('contains neither text nor token ids of prompt or answer, on the data plane or on MQTT', async () => {
    await using world = await startAgentWorld()
    // Relays record every byte between agent and broker, and between agent and data plane.
    await using broker = await startBroker()
    await using control = await startRelay(portOf(broker.url))
    await using data = await startRelay(portOf(world.bridge.dataUrl))
    await using bridge = await announce(broker.url, {
      modelId: world.bridge.modelId,
      data: through(data, world.bridge.dataUrl),
    })
    const agent = await world.startAgent({ id: 'recorded', bridges: [through(control, broker.url)] })
    // The device also sends its log, at the most detailed level that an operator can request.
    await bridge.requestLog('recorded')
    const response = await postJson(`${agent.apiUrl}/v1/chat/completions`, {
      messages: [
        { role: 'system', content: system },
        { role: 'user', content: question },
      ],
      max_tokens: 40,
      temperature: 0,
      brim: { token_ids: true },
    })
    const answer = (await response.json()) as { choices: { message: { content: string } }[]; brim: { tokenIds: number[] } }
    const { tokenIds } = answer.brim
    expect(tokenIds).toHaveLength(40)
    const device = await openDeviceModel({ bundle: world.bundle, threads: 1, medusa: false })
    const messages = [
      { role: 'system', content: system },
      { role: 'user', content: question },
    ]
    const promptIds = device.text.tokenizer.encode(device.text.chatTemplate!.render(messages), { addSpecialTokens: false })
    await agent.close()

    const [connection] = data.connections
    const up = webSocketPayloads(Buffer.concat(connection!.up))
    const down = webSocketPayloads(Buffer.concat(connection!.down))
    const mqtt = control.connections.map(({ up, down }) => Buffer.concat([...up, ...down]))
    const raw = data.connections.map(({ up, down }) => Buffer.concat([...up, ...down]))

    // The recording is complete: it holds the first token's shallow state and the device's name.
    const sequence = device.input.createSequence()
    const [shallow] = await device.input.step([{ sequence, ids: promptIds.slice(0, chunkTokens), select: 'all' }])
    const { width, half } = shallow!
    const firstRow = Buffer.from(half.buffer, half.byteOffset, 2 * width)
    expect(up.includes(firstRow)).toBe(true)
    expect(down.length).toBeGreaterThan(40 * firstRow.length)
    expect(Buffer.concat(mqtt).includes('recorded')).toBe(true)
    expect(Buffer.concat(mqtt).includes('"message":"answered"')).toBe(true)
    sequence.release()
    await device.close()

    for (const wire of [up, down, ...mqtt, ...raw]) {
      expect(idsSeen(wire, promptIds)).toEqual([])
      expect(idsSeen(wire, tokenIds)).toEqual([])
      expect(wordsSeen(wire, system, question, answer.choices[0]!.message.content)).toEqual([])
    }
  })

  it('would be recognised if it contained them', () => {
    const ids = [7, 301, 12, 499, 55]
    const noise = Buffer.alloc(100, 0x3c)
    for (const [name, encode] of Object.entries(encodings))
      expect(idsSeen(Buffer.concat([noise, encode(ids), noise]), ids)).toContain(name)
    expect(wordsSeen(Buffer.concat([noise, Buffer.from(question, 'utf16le')]), question)).toContain('Vandermeer')
    expect(wordsSeen(Buffer.concat([noise, Buffer.from(question)]), question)).toContain('Thursday')
    expect(idsSeen(noise, ids)).toEqual([])
  })
})

async function announce(url: string, fields: Pick<BridgeState, 'modelId' | 'data'>) {
  const client = await mqttClient(url, 'bridge-one')
  const state: BridgeState = { v: 1, state: 'ready', birth: 1, at: '2026-01-02T03:04:05.678Z', ...fields }
  await client.publishAsync(bridgeStateTopic('default', 'one'), JSON.stringify(state), { qos: 1, retain: true })
  return {
    async requestLog(device: string) {
      const command = {
        v: 1,
        bridge: 'one',
        id: '0'.repeat(16),
        expiresAt: '2100-01-01T00:00:00Z',
        type: 'logs',
        level: 'debug',
        forS: 600,
      }
      const replied = new Promise((resolve) => client.once('message', resolve))
      await client.subscribeAsync(deviceTopic('default', device, 'replies'), { qos: 1 })
      const repeating = setInterval(
        () => client.publish(deviceTopic('default', device, 'commands'), JSON.stringify(command), { qos: 1 }),
        100,
      )
      await replied
      clearInterval(repeating)
    },
    [Symbol.asyncDispose]: () => client.endAsync(true),
  }
}
