import { join } from 'node:path'
import { expect, it } from 'vitest'
import { BundleTrial } from '../../../agent/models/bundle-trial.ts'
import { tempDir } from '../../support/temp-dir.ts'

const version = { modelId: 'a'.repeat(64), manifestSha256: 'b'.repeat(64) }
const unhealthy = expect.objectContaining({ code: 'HEALTH_CHECK_FAILED' })

it('remembers what has failed for the attempts of its job, and only for them', () => {
  using dir = tempDir()
  // As the agent finds it after a restart.
  const trial = () => new BundleTrial(join(dir.path, 'trial.json'))
  const first = trial()
  first.begin('1', version, undefined)
  expect(first.fail('no answer')).toMatchObject({ message: expect.stringContaining('no answer') })
  expect(() => trial().begin('1', version, undefined)).toThrow(unhealthy)
  expect(() => trial().begin('2', version, undefined)).not.toThrow()
})

it('gives up a bundle with which the agent has died three times; an activation that was canceled does not count', () => {
  using dir = tempDir()
  const begin = (job: string) => {
    const trial = new BundleTrial(join(dir.path, 'trial.json'))
    trial.begin(job, version, undefined)
    return trial
  }
  begin('1').cancel()
  for (let deaths = 0; deaths < 3; deaths++) begin('1')
  expect(() => begin('1')).toThrow(expect.objectContaining({ message: expect.stringMatching(/ended 3 times/) }))
  expect(() => begin('1')).toThrow(unhealthy)
  begin('2').keep()
  begin('2').keep()
})
