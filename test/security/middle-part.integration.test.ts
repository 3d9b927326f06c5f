import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { openIdentityStore } from '../../cloud-bridge/identity/store.ts'
import { readManifest } from '../../core/model/bundle/bundle.ts'
import { devicePartsOf, filesOf, partsOf } from '../../core/model/bundle/bundle-files.ts'
import { manifestFile } from '../../core/model/bundle/manifest.ts'
import { startAgentWorld } from '../support/agent-world.ts'
import { enrolDevice } from '../support/enrol-device.ts'
import { shared } from '../support/shared.ts'

const world = shared(() => startAgentWorld({ bridge: { auth: true } }))
let deviceToken: string
let viewerKey: string
beforeAll(async () => {
  const store = openIdentityStore(join(world.dir, 'bridge'))
  deviceToken = await (await enrolDevice(world, store, 'jetson-01')).token()
  viewerKey = store.createKey('operator:test', 'copies', 'viewer').key
  store.close()
})

describe('a stolen device', () => {
  it('downloads what it runs, but not the middle part of the model', async () => {
    const manifest = await readManifest(world.bundle)
    const status = async (path: string, token: string) => {
      const url = `${world.bridge.httpUrl}/v1/bundles/${manifest.modelId}/${path}`
      const response = await fetch(url, { headers: { authorization: `Bearer ${token}` } })
      await response.arrayBuffer()
      return response.status
    }
    const forDevices = filesOf(manifest, devicePartsOf(manifest)).map(({ path }) => path)
    for (const path of [manifestFile, ...forDevices]) expect([path, await status(path, deviceToken)]).toEqual([path, 200])
    const middle = manifest.files.map(({ path }) => path).filter((path) => partsOf(manifest, path).join() === 'middle')
    expect(middle.length).toBeGreaterThan(0)
    for (const path of middle) {
      expect([path, await status(path, deviceToken)]).toEqual([path, 403])
      expect([path, await status(path, viewerKey)]).toEqual([path, 200])
    }
  })
})
