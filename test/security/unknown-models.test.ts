import { cpSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { openServedBundles } from '../../cloud-bridge/bundles/served-bundles.ts'
import { tempDir } from '../support/temp-dir.ts'
import { tinyBundle } from '../support/tiny-bundle.ts'

it('requests for unknown models read no manifest again that has not changed', async () => {
  using dir = tempDir()
  const bundle = await tinyBundle()
  cpSync(bundle.path, join(dir.path, 'tiny'), { recursive: true })
  bundle[Symbol.dispose]()
  const path = join(dir.path, 'tiny', 'manifest.json')
  const changedAt = new Date('2026-01-01T00:00:00Z')
  utimesSync(path, changedAt, changedAt)
  const bundles = openServedBundles({ own: [join(dir.path, 'tiny')], folder: join(dir.path, 'none') })
  const { modelId } = bundle.manifest
  await bundles.find(modelId)
  // Reading it again would fail.
  const text = readFileSync(path, 'utf8')
  writeFileSync(path, 'x'.repeat(statSync(path).size))
  utimesSync(path, changedAt, changedAt)
  await expect(bundles.find('0'.repeat(64))).rejects.toMatchObject({ code: 'MODEL_UNKNOWN' })
  await expect(bundles.find(modelId)).resolves.toMatchObject({ manifest: { modelId } })
  // A changed one is read.
  writeFileSync(path, text.replace(/"name": ?"[^"]*"/, '"name":"renamed"'))
  expect(await bundles.list()).toMatchObject([{ name: 'renamed' }])
})
