import { sentencesOf } from '../../core/wire/protocol/expansion.ts'
import { ExpandInput, type ToJobDevice } from '../../core/wire/protocol/jobs.ts'
import type { DeviceState } from '../../core/wire/protocol/messages.ts'
import { deviceTopic } from '../../core/wire/protocol/topics.ts'
import { mqttClient } from './broker.ts'

/** An attempt at an expansion that the device was given. */
export interface DeviceRun {
  readonly bridge: string
  readonly job: string
  readonly attempt: number
  readonly input: ExpandInput
  /** Events of the attempt, numbered by the device. */
  report(...events: object[]): Promise<void>
  /** Payloads of its topic of events, whatever they are. */
  publish(...payloads: string[]): Promise<void>
  /** All sentences, then the result. @param textOf a line of a sketch @param meanLog2Probability of each, as the device claims it */
  succeed(textOf?: (line: string) => string, meanLog2Probability?: number): Promise<void>
}

const speed = { model: 'slm', ttftMs: 10, loadMs: 0, parallel: [[16, 8]], tokensPerLlmToken: 1 }
const figures = { groups: 1, parallel: 1, promptTokens: 60, prefilledTokens: 30, tokens: 60, loadMs: 0, tookMs: 50 }

/**
 * A device without a model, on a real MQTT connection that it opens again when it is lost: it reports its profile, and expands as the
 * test says. @param tpotMs of its small model, as it reports it
 */
export async function connectExpandingDevice(mqttUrl: string, id: string, onRun: (run: DeviceRun) => unknown, tpotMs = 1) {
  const topic = (leaf: Parameters<typeof deviceTopic>[2]) => deviceTopic('default', id, leaf)
  const stateOf = (state: DeviceState['state']) =>
    JSON.stringify({ v: 1, state, birth: 1, at: new Date().toISOString(), jobs: ['pice.expand', 'profile'] })
  const will = { topic: topic('state'), payload: Buffer.from(stateOf('disconnected')), qos: 1, retain: true } as const
  const client = await mqttClient(mqttUrl, `device-${id}`, { reconnectPeriod: 100, will })
  const canceled: string[] = []
  const seen = new Set<string>()
  const at = new Date(0).toISOString()
  client.on('message', (_, payload) => {
    const message = JSON.parse(payload.toString()) as ToJobDevice
    const { bridge, job, attempt } = message
    if (message.type === 'cancel') return void canceled.push(job)
    // The bridge repeats what is not accepted at once.
    if (seen.has(`${job} ${attempt}`)) return
    seen.add(`${job} ${attempt}`)
    let n = 0
    const publish = async (...payloads: string[]) => {
      // The device may be gone in the middle.
      await Promise.allSettled(payloads.map((payload) => client.publishAsync(topic('events'), payload, { qos: 1 })))
    }
    const numbered = (event: object) => {
      n += 1
      return JSON.stringify({ v: 1, bridge, job, attempt, n, at, ...event })
    }
    const report = (...events: object[]) => publish(...events.map(numbered))
    if (message.kind === 'profile')
      return void report({ type: 'accepted' }, { type: 'succeeded', result: { measuredAt: at, models: [{ ...speed, tpotMs }] } })
    const input = ExpandInput.parse(message.input)
    void onRun({
      bridge,
      job,
      attempt,
      input,
      report,
      publish,
      async succeed(textOf = (line) => `${line} by ${id}.`, meanLog2Probability = -1) {
        const sentences = input.sketches.flatMap((asked, sketch) =>
          sentencesOf(asked).map((sentence) => ({
            sketch,
            sentence,
            candidate: 0,
            model: 'slm',
            text: textOf(asked.sketch[sentence]!),
            tokens: 6,
            meanLog2Probability,
          })),
        )
        await report({ type: 'running' }, ...sentences.map((sentence) => ({ type: 'sentence', ...sentence })))
        await report({ type: 'succeeded', result: { sentences, runs: [{ model: 'slm', ...figures }] } })
      },
    })
  })
  await client.subscribeAsync(topic('jobs'), { qos: 1 })
  const publishState = () => client.publishAsync(topic('state'), stateOf('ready'), { qos: 1, retain: true })
  await publishState()
  // A broker that was restarted has lost it.
  client.on('connect', () => void publishState())
  return {
    canceled,
    /** As if its power was cut. */
    vanish: () => void client.endAsync(true),
    [Symbol.asyncDispose]: async () => void (await client.endAsync(true)),
  }
}
