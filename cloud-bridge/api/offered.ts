import { BrimError } from '../../core/kit/base/errors.ts'
import type { ServedRelease } from '../../core/wire/protocol/http/releases.ts'
import type { InstallInput, SoftwareInput } from '../../core/wire/protocol/jobs.ts'
import type { BundleOnDisk } from '../bundles/served-bundles.ts'

/** The bundle of a model that the bridge offers. @throws BrimError MODEL_UNKNOWN */
export type FindBundle = (modelId: string) => Promise<Pick<BundleOnDisk, 'folder' | 'manifest' | 'manifestSha256'>>

/** @throws BrimError MODEL_UNKNOWN: the device would ask the bridge for this bundle, which does not offer it */
export async function requireBundle(find: FindBundle, { modelId, manifestSha256, url }: InstallInput): Promise<void> {
  if (url !== undefined) return
  const { manifestSha256: offered } = await find(modelId)
  if (offered === manifestSha256) return
  throw new BrimError(
    'MODEL_UNKNOWN',
    `this bridge offers another bundle of model ${modelId}: its manifest has the hash ${offered}`,
    {
      hint: 'submit that hash, or the URL of the folder with the other bundle',
    },
  )
}

/**
 * Of a bundle at another URL, which this bridge has not got, each device finds out by itself: it keeps the bundle before.
 * @param servedIds ids of the models that devices open sessions with at this bridge
 * @throws BrimError BUNDLE_MISMATCH: devices would answer with a split model that the bridge does not serve
 */
export async function requireServed(
  find: FindBundle,
  servedIds: readonly string[],
  { modelId, activate, url }: InstallInput,
): Promise<void> {
  if (!activate || servedIds.includes(modelId)) return
  const offered = url === undefined ? await find(modelId) : await find(modelId).catch(() => undefined)
  if (!offered || offered.manifest.split === null) return
  throw new BrimError(
    'BUNDLE_MISMATCH',
    `this bridge does not serve "${offered.manifest.card.name}" (${modelId.slice(0, 12)}…): devices could not answer with it`,
    {
      hint: `start the bridge with it, beside the bundles of now: "brim bridge run --bundle ${offered.folder} --bundle <the one of now>" (docs/rollouts.md)`,
    },
  )
}

/** @throws BrimError MODEL_UNKNOWN: the device would ask the bridge for this release, which does not offer it */
export async function requireRelease(
  list: () => Promise<readonly ServedRelease[]>,
  { version, archiveSha256, url }: SoftwareInput,
): Promise<void> {
  if (url !== undefined) return
  const offered = (await list()).find(({ sha256 }) => sha256 === archiveSha256)
  if (offered?.version === version) return
  const problem = offered ? `is version ${offered.version}, not ${version}` : 'is not at this bridge'
  throw new BrimError('MODEL_UNKNOWN', `the release with the sha256 ${archiveSha256} ${problem}`, {
    hint: '"brim bundle list" lists the releases; "brim bundle push" uploads one',
  })
}
