import { columns } from '../../../core/kit/cli/columns.ts'
import { bundleOperations } from '../../../core/wire/protocol/http/bundles.ts'
import { releaseOperations } from '../../../core/wire/protocol/http/releases.ts'
import { bridgeCommand } from '../request-command.ts'

export const command = bridgeCommand({
  examples: [
    ['brim bundle list', 'bundles and releases, with the keys that have signed them'],
    ['brim bundle list --json | jq .bundles[].manifestSha256', 'what identifies a version'],
  ],
  async request(client) {
    const bundles = await client.call(bundleOperations.list, {})
    const releases = await client.call(releaseOperations.list, {})
    return {
      raw: { ...(bundles.raw as object), ...(releases.raw as object) },
      value: { ...bundles.value, ...releases.value },
    }
  },
  text({ bundles, releases }) {
    const row = (kind: string, name: string, id: string, bytes: number, signedBy: readonly string[]) => {
      const keys = signedBy.map((key) => key.slice(0, 8)).join(', ') || '-'
      return [kind, name, id.slice(0, 12), (bytes / 1e6).toFixed(1), keys]
    }
    const rows = [
      ...bundles.map(({ name, modelId, bytes, signedBy }) => row('bundle', name, modelId, bytes, signedBy)),
      ...releases.map(({ version, platform, sha256, bytes, signedBy }) =>
        row('software', `${version} ${platform}`, sha256, bytes, signedBy),
      ),
    ]
    if (rows.length === 0) return { note: 'the bridge has nothing to install; "brim bundle push" uploads a bundle' }
    return columns([['KIND', 'NAME', 'ID', 'MB', 'SIGNED BY'], ...rows])
  },
})
