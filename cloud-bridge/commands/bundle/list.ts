import { defineCommand } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { bundleOperations } from '../../../core/wire/protocol/http/bundles.ts'
import { releaseOperations } from '../../../core/wire/protocol/http/releases.ts'
import { bridgeClient } from '../bridge-client.ts'
import { columns } from '../columns.ts'

export const command = defineCommand({
  examples: [
    ['brim bundle list', 'bundles and releases, with the keys that have signed them'],
    ['brim bundle list --json | jq .bundles[].manifestSha256', 'what identifies a version'],
  ],
  options: bridgeOptions,
  async run({ json, ...options }, io) {
    const client = await bridgeClient(options, io)
    const { raw, value } = await client.call(bundleOperations.list, {})
    const { raw: rawReleases, value: software } = await client.call(releaseOperations.list, {})
    if (json) return io.out(JSON.stringify({ ...(raw as object), ...(rawReleases as object) }))
    const rows = [
      ...value.bundles.map(({ name, modelId, bytes, signedBy }) => [
        'bundle',
        name,
        modelId.slice(0, 12),
        mb(bytes),
        keys(signedBy),
      ]),
      ...software.releases.map(({ version, platform, sha256, bytes, signedBy }) => {
        return ['software', `${version} ${platform}`, sha256.slice(0, 12), mb(bytes), keys(signedBy)]
      }),
    ]
    if (rows.length === 0) return io.err('the bridge has nothing to install; "brim bundle push" uploads a bundle')
    io.out(columns([['KIND', 'NAME', 'ID', 'MB', 'SIGNED BY'], ...rows]))
  },
})

const mb = (bytes: number) => (bytes / 1e6).toFixed(1)
const keys = (signedBy: readonly string[]) => signedBy.map((key) => key.slice(0, 8)).join(', ') || '-'
