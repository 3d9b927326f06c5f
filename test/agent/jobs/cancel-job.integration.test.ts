import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { hatEndpoint } from '../../../agent/hat/endpoint.ts'
import { createDeviceJobs } from '../../../agent/jobs/device-jobs.ts'
import { hatGenerate, slmGenerate } from '../../../agent/jobs/generate.ts'
import type { JobHandler } from '../../../agent/jobs/job-handler.ts'
import { JobLedger, ledgerMigrations } from '../../../agent/jobs/ledger.ts'
import { slmEndpoint } from '../../../agent/slm/endpoint.ts'
import { openLocalModel } from '../../../agent/slm/local-model.ts'
import type { TokenEndpoint } from '../../../core/answer/endpoint/endpoint.ts'
import { AnswerMeter } from '../../../core/answer/endpoint/meter.ts'
import { loadTextModel } from '../../../core/answer/endpoint/text-model.ts'
import { type Clock, systemClock } from '../../../core/kit/base/clock.ts'
import { openDatabase } from '../../../core/kit/store/open-database.ts'
import { JobEvent } from '../../../core/wire/protocol/jobs.ts'
import { buildSlmBundle, buildTextBundle } from '../../support/agent-world.ts'
import { startHatWorld } from '../../support/hat-world.ts'
import { shared } from '../../support/shared.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const dir = shared(tempDir)
const world = shared(async () => startHatWorld({ bundle: await buildTextBundle(dir.path) }))
/** Steps of the small model, or rounds of the split model. */
let steps = 0
const jobHandlers: Record<string, JobHandler> = {}
const closers: (() => Promise<void>)[] = []

/** Advances with each reading, so that every piece of an answer is reported at once. */
function advancingClock(): Clock {
  let nowMs = 0
  return { nowMs: () => (nowMs += 200), sleep: systemClock.sleep }
}

beforeAll(async () => {
  const { manifest } = world.model
  const local = await openLocalModel({ bundle: await buildSlmBundle(dir.path), threads: 1 })
  closers.push(local.close)
  const { chain } = local
  const counted = {
    ...local,
    chain: {
      ...chain,
      createSequence: chain.createSequence.bind(chain),
      step(items: Parameters<typeof chain.step>[0]) {
        steps += 1
        return chain.step(items)
      },
    },
  }
  const model = { ...(await loadTextModel(world.bundle, manifest)), eos: [] }
  const endpoint = hatEndpoint(world.options(), model)
  const countedEndpoint: TokenEndpoint = {
    model,
    async *answer(request, signal) {
      for await (const chunk of endpoint.answer(request, signal)) {
        steps += 1
        yield chunk
      }
    },
  }
  const options = { clock: systemClock, meter: new AnswerMeter(systemClock), nextSeed: () => 1 }
  jobHandlers['slm.generate'] = slmGenerate({ ...options, endpoint: slmEndpoint(counted, systemClock) })
  jobHandlers['hat.generate'] = hatGenerate({ ...options, endpoint: countedEndpoint })
})
afterAll(async () => {
  for (const close of closers) await close()
})

it.each(['slm.generate', 'hat.generate'])(
  '%s that is canceled ends within one step of its model, and frees its KV',
  async (kind) => {
    const store = openDatabase(join(dir.path, `${kind}.sqlite`), ledgerMigrations)
    const jobs = createDeviceJobs({ ledger: new JobLedger(store), clock: advancingClock(), logger: silentLogger() })
    const { handlers, onConnection } = jobs.service('mqtt://a')
    const at = { v: 1, bridge: 'bridge-1', job: '0123abcd-1', attempt: 1 }
    const events: JobEvent[] = []
    let stepsAtCancel: number | undefined
    const publish = async (_leaf: string, message: string) => {
      const event = JobEvent.parse(JSON.parse(message))
      events.push(event)
      if (event.type !== 'text' || stepsAtCancel !== undefined) return true
      stepsAtCancel = steps
      handlers.jobs(Buffer.from(JSON.stringify({ ...at, type: 'cancel' })))
      return true
    }
    onConnection({ publish, publishState: async () => true })
    jobs.start(jobHandlers)
    steps = 0
    try {
      handlers.jobs(Buffer.from(JSON.stringify({ ...at, type: 'run', kind, input: { prompt: 'Can you', maxTokens: 200 } })))
      await expect.poll(() => events.at(-1)?.type).toBe('canceled')
      expect(stepsAtCancel).toBeGreaterThan(0)
      expect(steps - stepsAtCancel!).toBeLessThanOrEqual(1)
      await expect.poll(() => world.sessionsAtBridge()).toBe(0)
    } finally {
      await jobs.close()
      store.close()
    }
  },
)
