import { BrimError } from '../../core/base/errors.ts'
import type { ServedRelease } from '../../core/protocol/http/releases.ts'
import type { InstallInput, SoftwareInput } from '../../core/protocol/jobs.ts'

/** The bundle of a model that the bridge offers. @throws BrimError MODEL_UNKNOWN */
export type FindBundle = (modelId: string) => Promise<{ readonly manifestSha256: string }>

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
