import { describe, expect, it } from 'vitest'
import { type HealthGateOptions, healthProblem } from '../../../agent/trial/health-gate.ts'
import type { AnswerDelta, Endpoint } from '../../../core/answer/endpoint/endpoint.ts'
import { fakeClock } from '../../support/fake-clock.ts'

const never = new AbortController().signal
const limits = { healthBridgeS: 20, healthProbeS: 10, healthSoakS: 120 }

/** A device after a change. `isLinked`: whether a bridge is connected. */
function changedDevice() {
  const clock = fakeClock()
  const device = { isLinked: true, probes: 0 }
  const endpoint: Pick<Endpoint, 'answer'> = {
    async *answer() {
      device.probes += 1
      yield { tokens: [5], end: undefined } as unknown as AnswerDelta
    },
  }
  const options: HealthGateOptions = { hasBridge: () => device.isLinked, endpoint: () => endpoint as Endpoint, limits, clock }
  let outcome: string | undefined = 'undecided'
  const decided = healthProblem(options, { prompt: 'Hello', maxTokens: 1 }, never).then((problem) => {
    outcome = problem
  })
  return {
    device,
    decided,
    outcome: () => outcome,
    async pass(seconds: number) {
      for (let passed = 0; passed < seconds; passed++) {
        await clock.advance(1_000)
        for (let turn = 0; turn < 4; turn++) await new Promise((done) => setImmediate(done))
      }
    },
  }
}

describe('a change of a device', () => {
  it('is kept only after minutes with a bridge, whatever it has answered before', async () => {
    const changed = changedDevice()
    await changed.pass(110)
    expect([changed.device.probes, changed.outcome()]).toEqual([1, 'undecided'])
    await changed.pass(15)
    expect(changed.outcome()).toBeUndefined()
  })

  it('is undone where the bridge is lost meanwhile and does not return', async () => {
    const changed = changedDevice()
    await changed.pass(100)
    changed.device.isLinked = false
    await changed.pass(19)
    expect(changed.outcome()).toBe('undecided')
    await changed.pass(3)
    expect(changed.outcome()).toBe('no bridge was connected within 20 s')
  })

  it('outlives short losses of the bridge, whose time does not count', async () => {
    const changed = changedDevice()
    await changed.pass(110)
    changed.device.isLinked = false
    await changed.pass(15)
    changed.device.isLinked = true
    await changed.pass(5)
    expect(changed.outcome()).toBe('undecided')
    await changed.pass(10)
    expect(changed.outcome()).toBeUndefined()
  })
})
