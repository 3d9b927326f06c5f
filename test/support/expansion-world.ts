import type { BridgeConfig } from '../../cloud-bridge/config.ts'
import { BridgeLimits } from '../../cloud-bridge/limits.ts'
import type { Expanded } from '../../cloud-bridge/pice/expander.ts'
import { openExpansions } from '../../cloud-bridge/pice/open-expansions.ts'
import { PresenceFeed } from '../../cloud-bridge/presence/presence-feed.ts'
import { openJobs } from '../../cloud-bridge/queue/open-jobs.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import { sentencesOf } from '../../core/wire/protocol/expansion.ts'
import { ExpandInput, SketchInput, type ToJobDevice } from '../../core/wire/protocol/jobs.ts'
import type { DeviceState } from '../../core/wire/protocol/messages.ts'
import { type SketchPolicy, staticSketches } from '../../lab/baselines/sketch-policies.ts'
import { silentLogger } from './silent-logger.ts'

export interface ExpansionRun {
  readonly device: string
  readonly job: string
  readonly attempt: number
  readonly input: ExpandInput
}

export type ExpansionWorld = ReturnType<typeof openExpansionWorld>

/** The scheduler of a bridge on its real queue, with scripted devices. */
export function openExpansionWorld(
  stateDir: string,
  clock: Clock,
  settings: Partial<BridgeLimits> = {},
  {
    sketchPolicy = 'dynamic' as SketchPolicy,
    answerMode = 'full' as BridgeConfig['answerMode'],
    onRun = (_run: ExpansionRun) => {},
  } = {},
) {
  const runs: ExpansionRun[] = []
  const profiled: string[] = []
  const canceled: string[] = []
  const limits = BridgeLimits.parse(settings)
  const numbers = new Map<string, number>()
  const wallMs = () => clock.nowMs()
  const presence = new PresenceFeed(silentLogger())
  const jobs = openJobs(
    { stateDir, limits, jobs: { keepDays: 1, keepDeadDays: 1, keepCount: 10_000, keepBytes: 1e9 } },
    {
      bridge: 'bridge-1',
      presence,
      clock,
      publish(device, leaf, text) {
        if (leaf !== 'jobs') return
        const message = JSON.parse(text) as ToJobDevice
        if (message.type === 'cancel') canceled.push(message.job)
        else if (message.kind === 'profile') profiled.push(device)
        else {
          const run = { device, ...message, input: ExpandInput.parse(message.input) }
          runs.push(run)
          onRun(run)
        }
      },
      onUnreadable: () => {},
      logger: silentLogger(),
    },
    () => ({ wallMs: wallMs(), upMs: wallMs(), boot: '' }),
  )
  const expansions = openExpansions(
    { stateDir, limits, answerMode },
    {
      ...{ jobs, fleet: { telemetryOf: () => null }, presence, clock, wallMs, logger: silentLogger() },
      ...(sketchPolicy === 'static' ? { sketches: staticSketches } : {}),
    },
  )
  jobs.queue.start()

  function setState(device: string, state: DeviceState['state']): void {
    const message = { v: 1 as const, state, birth: 1, at: new Date(0).toISOString(), jobs: ['pice.expand', 'profile'] }
    presence.publish({ kind: 'state', device, state: message })
  }

  function report({ device, job, attempt }: ExpansionRun, ...events: object[]): void {
    for (const event of events) {
      const key = `${job} ${attempt}`
      const n = (numbers.get(key) ?? 0) + 1
      numbers.set(key, n)
      const at = new Date(0).toISOString()
      jobs.queue.onJobEvent(device, Buffer.from(JSON.stringify({ v: 1, bridge: 'bridge-1', job, attempt, n, at, ...event })))
    }
  }

  /** Expands a sketch in the test's name. */
  function expand(id: string, fields: Partial<SketchInput> = {}, deadlineMs = 60_000, client = '') {
    const input = SketchInput.parse({
      prompt: `Question ${id}?`,
      sketch: ['one', 'two', 'three'],
      expectedTokens: 100,
      ...fields,
    })
    const stopping = new AbortController()
    const got: Expanded[] = []
    const ended = (async () => {
      try {
        for await (const expanded of expansions.expander.expand({ id, client, input, deadlineMs }, stopping.signal))
          got.push(expanded)
        return 'done'
      } catch (error) {
        return (error as { code?: string }).code ?? String(error)
      }
    })()
    return {
      got,
      ended,
      abort: () => stopping.abort(),
      texts: () => got.map(({ sentence, text }) => `${sentence}: ${text}`).sort(),
    }
  }

  return {
    presence,
    ...expansions,
    queue: jobs.queue,
    store: jobs.store,
    /** Expansions that were sent to devices, in order. */
    runs,
    /** Devices that were asked for a profile. */
    profiled,
    /** Jobs whose attempt a device was asked to stop. */
    canceled,
    setState,
    connect: (...devices: string[]) => {
      for (const device of devices) setState(device, 'ready')
    },
    report,
    expand,
    /** The device accepts and starts. */
    begin: (run: ExpansionRun) => report(run, { type: 'accepted' }, { type: 'running' }),
    sentence: (run: ExpansionRun, sketch: number, sentence: number, fields: object = {}) =>
      report(run, { type: 'sentence', ...sentenceOf(run, sketch, sentence), ...fields }),
    succeed(run: ExpansionRun, model = 'slm'): void {
      const sentences = run.input.sketches.flatMap((asked, sketch) =>
        sentencesOf(asked).flatMap((sentence) =>
          Array.from({ length: asked.candidates }, (_, candidate) => ({ ...sentenceOf(run, sketch, sentence), candidate })),
        ),
      )
      const figures = { groups: 3, parallel: 3, promptTokens: 60, prefilledTokens: 30, tokens: 60, loadMs: 0, tookMs: 500 }
      report(run, { type: 'succeeded', result: { sentences, runs: [{ model, ...figures }] } })
    },
    fail: (run: ExpansionRun, failure = 'failed') =>
      report(run, { type: 'failed', failure, error: { code: 'OUT_OF_MEMORY', message: 'no memory' } }),
    async close() {
      await expansions.close()
      await jobs.close()
    },
  }
}

const sentenceOf = ({ device, input }: ExpansionRun, sketch: number, sentence: number) => ({
  sketch,
  sentence,
  candidate: 0,
  model: 'slm',
  text: `${input.sketches[sketch]?.sketch[sentence]} by ${device}`,
  tokens: 3,
  meanLog2Probability: -1,
})
