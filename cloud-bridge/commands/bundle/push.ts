import { z } from 'zod'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { bridgeClient } from '../bridge-client.ts'
import { readPackage } from './package.ts'
import { publishPackage } from './publish.ts'

export const command = defineCommand({
  examples: [
    ['brim bundle push qwen', 'then: brim rollout create bundle --model qwen'],
    ['brim bundle push brim-0.3.0-linux-arm64.tar.gz', 'the signed archive of a release'],
  ],
  notes:
    'It uploads only what the bridge does not have, and goes on where an interrupted push stopped. The role admin is required.',
  options: { path: z.string().min(1).describe('folder of the bundle, or archive of the release'), ...bridgeOptions },
  async run({ path, json, ...options }, io) {
    const found = await readPackage(path)
    const client = await bridgeClient(options, io)
    let shownPercent = -1
    const onUploaded = (done: number, total: number) => {
      const percent = Math.floor((10 * done) / total) * 10
      if (json || percent === shownPercent) return
      shownPercent = percent
      io.err(`${percent} % of ${Math.ceil(total / 1e6)} MB`)
    }
    const uploadedBytes = await publishPackage(client, found, { onUploaded, clock: systemClock, signal: io.signal })
    const { kind, sha256 } = found
    const published =
      found.kind === 'bundle'
        ? { kind, modelId: found.manifest.modelId, manifestSha256: sha256, uploadedBytes }
        : { kind, version: found.version, platform: found.platform, sha256, uploadedBytes }
    io.out(json ? JSON.stringify(published) : (published.modelId ?? sha256))
    if (found.signatures === undefined && !json) io.err('the bundle is not signed: devices with a --trusted-key refuse it')
  },
})
