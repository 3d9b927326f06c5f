import { readPicePrompts } from '../../core/answer/sketch/load-prompts.ts'
import { readApiKey } from '../../core/answer/upstream/api-key.ts'
import { readManifest } from '../../core/model/bundle/bundle.ts'
import { readCertificates } from '../attestation/certificate-table.ts'
import { readAdmin, readHookSecret } from '../broker/broker-secrets.ts'
import type { BridgeConfig } from '../config.ts'
import { readPair } from '../http/certificate.ts'

/**
 * Reads every file that the configuration names, as a start does.
 * @throws BrimError CONFIG_INVALID, BUNDLE_INVALID, PROMPTS_INVALID naming the first file that a bridge could not use
 */
export async function readConfiguredFiles(config: BridgeConfig): Promise<void> {
  const { servedBundles, tls, attestationCertificates, upstreams, broker, picePrompts } = config
  for (const bundle of servedBundles) await readManifest(bundle)
  if (tls) readPair(tls)
  if (attestationCertificates !== undefined) readCertificates(attestationCertificates)
  for (const { keyFile } of upstreams) if (keyFile !== undefined) readApiKey(keyFile)
  if (broker?.adminFile !== undefined) readAdmin(broker.adminFile)
  if (broker?.hookSecretFile !== undefined) readHookSecret(broker.hookSecretFile)
  if (picePrompts !== undefined) await readPicePrompts(picePrompts)
}
