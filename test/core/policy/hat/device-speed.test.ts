import { expect, it } from 'vitest'
import { DeviceSpeed } from '../../../../core/policy/hat/device-speed.ts'

it('smooths the rates of real steps', () => {
  const speed = new DeviceSpeed()
  expect(speed).toMatchObject({ prefillTokensPerS: undefined, draftStepS: undefined })
  speed.recordPrefill(100, 1)
  speed.recordPrefill(200, 1)
  speed.recordDraft(4, 0.02)
  speed.recordDraft(0, 1)
  expect(speed).toMatchObject({ prefillTokensPerS: expect.closeTo(120), draftStepS: expect.closeTo(0.005) })
})

it('ignores the short rest of a prompt, which measures a step rather than a token', () => {
  const speed = new DeviceSpeed()
  speed.recordPrefill(100, 1)
  speed.recordPrefill(2, 1)
  expect(speed.prefillTokensPerS).toBe(100)
})
