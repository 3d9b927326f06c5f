import { nowIso, systemClock } from '../../../core/kit/base/clock.ts'
import { GenerateInput } from '../../../core/wire/protocol/jobs.ts'
import type { DeviceTelemetry } from '../../../core/wire/protocol/messages.ts'
import { deviceTopic } from '../../../core/wire/protocol/topics.ts'
import { askAgent } from '../../cluster/ask-agent.ts'
import { JobClient } from '../../cluster/job-client.ts'
import { connectJobDevice } from '../../cluster/job-device.ts'
import type { AttackCluster } from './cluster.ts'

export type HonestRoundTrip = 'puback' | 'dispatch' | 'answer'

/** One thing that the honest device did; ms: until its acknowledgement, the job's arrival, or the end of the answer. */
export interface HonestSample {
  readonly what: HonestRoundTrip
  readonly atMs: number
  readonly ms: number
}

/** Pauses between two of each kind. */
const everyMs: Readonly<Record<HonestRoundTrip, number>> = { puback: 100, dispatch: 400, answer: 2_000 }
/** What has not come about this long after the floods is lost. */
const settleMs = 30_000

interface HonestDeviceOptions extends Pick<AttackCluster, 'mqttUrl' | 'httpUrl' | 'measured' | 'apiKey' | 'apiUrl'> {
  readonly signal: AbortSignal
}

export type HonestDevice = Awaited<ReturnType<typeof startHonestDevice>>

/**
 * A device in this process that publishes and runs jobs, and an operator who submits them; an agent process answers beside
 * it. Everything that it starts is counted, and everything that does not come about is lost.
 */
export async function startHonestDevice({ mqttUrl, httpUrl, measured, apiKey, apiUrl, signal }: HonestDeviceOptions) {
  const samples: HonestSample[] = []
  /** By the prompt of a job that has not arrived yet. */
  const sentAtMs = new Map<string, number>()
  /** Started and not yet complete. */
  const open = new Set<Promise<void>>()
  let [lost, started] = [0, 0]
  const ended = new AbortController()
  const record = (what: HonestRoundTrip, atMs: number) => samples.push({ what, atMs, ms: systemClock.nowMs() - atMs })

  const client = await connectJobDevice(mqttUrl, { ...measured, reconnectMs: 250 }, ({ input }) => {
    const key = GenerateInput.parse(input).prompt ?? ''
    const atMs = sentAtMs.get(key)
    if (atMs !== undefined) record('dispatch', atMs)
    sentAtMs.delete(key)
  })

  const publish = async () => {
    const atMs = systemClock.nowMs()
    const speed = { prefillTokensPerS: null, draftStepMs: null }
    const sample: DeviceTelemetry = { v: 1, at: nowIso(), birth: 1, link: null, speed }
    await client.publishAsync(deviceTopic('default', measured.id, 'telemetry'), JSON.stringify(sample), { qos: 1 })
    record('puback', atMs)
  }
  const jobs = new JobClient(httpUrl, signal, { apiKey })
  const runJob = async () => {
    const atMs = systemClock.nowMs()
    const key = `honest-${started}`
    // The job may arrive before the response with its id: its prompt identifies it.
    sentAtMs.set(key, atMs)
    const id = await jobs.submit({ kind: 'slm.generate', input: { prompt: key }, device: measured.id, key })
    for (const giveUpMs = atMs + settleMs; ; await systemClock.sleep(250)) {
      const state = (await jobs.show(id))?.state
      if (state === 'SUCCEEDED') return
      if (systemClock.nowMs() > giveUpMs) throw new Error(`job ${id} is ${state}`)
    }
  }
  const answer = async () => {
    const atMs = systemClock.nowMs()
    const body = { prompt: 'What is a good place to eat?', temperature: 0, max_tokens: 16, user: `honest-${started}` }
    await askAgent(apiUrl, body, signal)
    record('answer', atMs)
  }
  const work: Readonly<Record<HonestRoundTrip, () => Promise<void>>> = { puback: publish, dispatch: runJob, answer }

  async function repeat(what: HonestRoundTrip): Promise<void> {
    while (!ended.signal.aborted) {
      started += 1
      const running: Promise<void> = work[what]()
        .catch(() => {
          lost += 1
        })
        .finally(() => open.delete(running))
      open.add(running)
      await systemClock.sleep(everyMs[what], ended.signal).catch(() => {})
    }
  }
  const repeating = Promise.all((['puback', 'dispatch', 'answer'] as const).map(repeat))

  return {
    samples: samples as readonly HonestSample[],
    /** Ends the load and waits for what is under way. @returns how much was started, and how much of it was lost */
    async finish(): Promise<{ readonly started: number; readonly lost: number }> {
      ended.abort()
      await repeating
      const settled = new AbortController()
      await Promise.race([Promise.all(open), systemClock.sleep(settleMs, settled.signal).catch(() => {})])
      settled.abort()
      await client.endAsync(true)
      return { started, lost: lost + open.size }
    },
  }
}
