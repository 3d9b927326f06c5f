import { readPicePrompts } from '../../core/answer/sketch/load-prompts.ts'
import { readApiKey } from '../../core/answer/upstream/api-key.ts'
import { readManifest } from '../../core/model/bundle/bundle.ts'
import { readApiKeys } from '../api/api-keys.ts'
import { readAttestationPolicy } from '../attestation/attestation-policy.ts'
import { BundleFolder } from '../bundles/bundle-folder.ts'
import type { AgentConfig } from '../config.ts'

/**
 * Reads every file that the configuration names, as a start does.
 * @throws BrimError CONFIG_INVALID, BUNDLE_INVALID, PROMPTS_INVALID naming the first file that an agent could not use
 */
export async function readConfiguredFiles(config: AgentConfig): Promise<void> {
  const { bundle, slms = [], apiKeyFile, slmServer, server, picePrompts, privacy, stateDir } = config
  const bundles = new BundleFolder(stateDir)
  for (const name of [...(bundle === undefined ? [] : [bundle]), ...slms]) await readManifest(await bundles.resolve(name))
  if (privacy.attestation !== undefined) readAttestationPolicy(privacy.attestation)
  if (apiKeyFile !== undefined) readApiKeys(apiKeyFile)
  for (const keyFile of [slmServer?.keyFile, server?.keyFile]) if (keyFile !== undefined) readApiKey(keyFile)
  if (picePrompts !== undefined) await readPicePrompts(picePrompts)
}
