import { expect, it } from 'vitest'
import { createSampler } from '../../../agent/device/sampler.ts'
import { ConditionMonitor } from '../../../agent/telemetry/condition-monitor.ts'
import { RecentErrors } from '../../../agent/telemetry/recent-errors.ts'
import { fixtureHost } from '../../support/device-fixture.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

it("combines the device's power with the agent's answers: energy per token, busy and idle power", async () => {
  using device = fixtureHost('orin-nano-jp6')
  using dir = tempDir()
  const answers = { active: 0, decodeTokensPerS: { large: 2 }, totals: { tokens: 0, busyS: 0 } }
  const monitor = new ConditionMonitor({
    sampler: createSampler({ host: device.host, stateDir: dir.path, clock: fakeClock(), logger: silentLogger() }),
    answers,
    errors: new RecentErrors(),
    agent: '0.1.0',
    modelId: () => 'ab'.repeat(32),
    work: () => ({ jobs: { waiting: 0, running: 0 } }) as ReturnType<ConstructorParameters<typeof ConditionMonitor>[0]['work']>,
    prefillTokensPerS: () => ({ small: 10 }),
  })
  const { signal } = new AbortController()
  expect(monitor.latest).toBeUndefined()
  await monitor.sample(signal)
  // The fixture draws 4.854 W.
  expect(monitor.latest?.power).toMatchObject({ totalW: 4.854, idleW: 4.85, busyW: null, jPerToken: null })
  answers.active = 1
  answers.totals = { tokens: 0, busyS: 0 }
  await monitor.sample(signal)
  answers.totals = { tokens: 10, busyS: 5 }
  await monitor.sample(signal)
  expect(monitor.latest?.power).toMatchObject({
    busyW: 4.85,
    idleW: 4.85,
    // 4.854 W · 5 s / 10 tokens
    jPerToken: 2.43,
    // 4.854 W / 2 tokens/s, and / 10 tokens/s
    decodeJPerToken: { large: 2.43 },
    prefillJPerToken: { small: 0.485 },
  })
  expect(monitor.latest).toMatchObject({
    device: { agent: '0.1.0', module: 'Orin Nano' },
    answers: { decodeTokensPerS: { large: 2 }, prefillTokensPerS: { small: 10 } },
  })
})
