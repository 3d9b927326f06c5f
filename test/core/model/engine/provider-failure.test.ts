import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { VerifiedBundles } from '../../../../core/model/bundle/verified-bundles.ts'
import { openVerifiedBundle } from '../../../../core/model/engine/open-bundle.ts'
import type { ProviderWish } from '../../../../core/model/engine/provider.ts'
import { shared } from '../../../support/shared.ts'
import { tempDir } from '../../../support/temp-dir.ts'
import { tinyBundle } from '../../../support/tiny-bundle.ts'

const dir = tempDir()
const driver = join(dir.path, 'driver.json')
const plugin = join(dir.path, 'absent.so')
const bundle = shared(tinyBundle)
beforeAll(() => writeFileSync(driver, '{}'))
afterAll(() => dir[Symbol.dispose]())

/** A machine on which the GPU was measured as faster, before its plug-in was removed. */
class OnceFaster extends VerifiedBundles {
  override trialOf() {
    return { kind: 'measured', seconds: { provider: 1, cpu: 3 } } as const
  }
}
const open = (wish: ProviderWish) =>
  openVerifiedBundle(bundle.path, {
    ...{ parts: ['input', 'output'] as const, threads: 1, verified: new OnceFaster() },
    provider: { plugin, driverFiles: driver, ...wish },
  })

describe.skipIf(process.platform !== 'linux')('a provider that passed its trial, and fails when a model is opened', () => {
  it('leaves the model to the CPU under auto, with the reason', async () => {
    const model = await open({ name: 'auto' })
    try {
      expect(model.computing).toEqual({
        ...{ provider: 'cpu', failed: true },
        reason: expect.stringMatching(/^webgpu passed its trial, and failed later: .*absent\.so/),
      })
      expect(model.head()).toBeDefined()
    } finally {
      await model.release()
    }
  })

  it('is an error where it was asked for by name', async () => {
    await expect(open({ name: 'webgpu' })).rejects.toMatchObject({ code: 'PROVIDER_UNAVAILABLE' })
  })
})
