import { connectAsync } from 'mqtt'
import { nowIso } from '../../../core/kit/base/clock.ts'
import { requestedSentences } from '../../../core/wire/protocol/expansion.ts'
import { ExpandInput, JobEvent, ToJobDevice } from '../../../core/wire/protocol/jobs.ts'
import type { DeviceState } from '../../../core/wire/protocol/messages.ts'
import { deviceTopic } from '../../../core/wire/protocol/topics.ts'
import { over } from '../../frame/statistics.ts'
import { askBridge } from './asking.ts'
import type { PiceCluster } from './cluster.ts'
import { profileDevices, questionOf, type Setup } from './setup.ts'

/** Questions by sketch, beside a device whose small model is the fastest of all and writes the same for every line. */
export interface RubbishRun {
  readonly answers: number
  /** With a sentence of it. */
  readonly served: number
  /** Jobs that it was given. */
  readonly jobs: number
}

const rubbish = 'Nothing at all.'
const model = 'rubbish'

/** @param cluster warmed up @param count of questions, one after another */
export async function measureRubbish(
  setup: Pick<Setup, 'prompts' | 'plan' | 'io'>,
  cluster: PiceCluster,
  count: number,
): Promise<RubbishRun> {
  const { prompts, io } = setup
  let jobs = 0
  const client = await connectRubbishDevice(cluster.mqttUrl, () => {
    jobs += 1
  })
  try {
    await profileDevices({ client: cluster.client, deviceIds: [model] })
    let served = 0
    for (let at = 0; at < count; at += 1) {
      const question = questionOf(prompts[at % prompts.length]!, setup)
      const { text } = await askBridge(cluster.httpUrl, question, { mode: 'sketch', user: `rubbish ${at}` }, io.signal)
      if (text.includes(rubbish)) served += 1
    }
    return { answers: count, served, jobs }
  } finally {
    await client.endAsync(true)
  }
}

/** Share of the answers with a sentence that says nothing. */
export const rubbishShare = ({ answers, served }: RubbishRun): number | null => over(served, answers)

async function connectRubbishDevice(mqttUrl: string, onExpand: () => void) {
  const topic = (leaf: 'state' | 'jobs' | 'events') => deviceTopic('default', model, leaf)
  const client = await connectAsync(mqttUrl, { clientId: `device-${model}`, protocolVersion: 4, reconnectPeriod: 0 })
  client.on('message', (_topic, payload) => {
    const message = ToJobDevice.parse(JSON.parse(payload.toString()))
    if (message.type !== 'run') return
    const { bridge, job, attempt, kind, input } = message
    if (kind === 'pice.expand') onExpand()
    const result = kind === 'profile' ? profile() : expansionOf(ExpandInput.parse(input))
    for (const [at, event] of [{ type: 'accepted' }, { type: 'running' }, { type: 'succeeded', result }].entries()) {
      const whole = JobEvent.parse({ v: 1, bridge, job, attempt, n: at + 1, at: nowIso(), ...event })
      client.publish(topic('events'), JSON.stringify(whole), { qos: 1 })
    }
  })
  await client.subscribeAsync(topic('jobs'), { qos: 1 })
  const state: DeviceState = { v: 1, state: 'ready', birth: 1, at: nowIso(), jobs: ['pice.expand', 'profile'] }
  await client.publishAsync(topic('state'), JSON.stringify(state), { qos: 1 })
  return client
}

const profile = () => ({ measuredAt: nowIso(), models: [{ model, ttftMs: 1, tpotMs: 0.1 }] })

function expansionOf({ sketches }: ExpandInput) {
  const places = requestedSentences(sketches)
  const sentences = places.map((place) => ({ ...place, model, text: rubbish, tokens: 3, meanLog2Probability: null }))
  const tokens = 3 * places.length
  const figures = { groups: 1, parallel: 1, promptTokens: 60, prefilledTokens: 60, tokens, loadMs: 0, tookMs: 5 }
  return { sentences, runs: [{ model, ...figures }] }
}
