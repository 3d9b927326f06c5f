import { nextSeed } from '../../core/kit/base/next-seed.ts'
import { seededRandom } from '../../core/kit/base/random.ts'
import { version } from '../../core/kit/base/version.ts'
import { brokerNodes, shownBroker } from '../../core/wire/protocol/mqtt-url.ts'
import { readAttestationPolicy } from '../attestation/attestation-policy.ts'
import { RequiredAttestation } from '../attestation/required-attestation.ts'
import { sevSnpVerifier } from '../attestation/sev-snp.ts'
import type { BridgeCredentials } from '../identity/identities.ts'
import { BridgeLink } from '../link/bridge-link.ts'
import { BridgeLinks } from '../link/bridge-links.ts'
import type { ActiveModels } from '../models/active-models.ts'
import type { AgentVariant } from '../variant.ts'
import type { Base } from './base.ts'
import type { AgentState } from './state.ts'

/** A link by each broker. @throws BrimError CONFIG_INVALID */
export function openLinks(
  { config, closers, clock, logger, progress, disclosures }: Base,
  { birth, instance }: AgentState,
  identities: BridgeCredentials,
  models: ActiveModels,
  variant: AgentVariant,
): BridgeLinks {
  const { attestation: file } = config.privacy
  const attestation =
    file === undefined
      ? undefined
      : new RequiredAttestation(readAttestationPolicy(file), sevSnpVerifier(variant.attestationRoots))
  const linkBy = (url: string) =>
    new BridgeLink({
      url,
      credentials: identities.at(url),
      dataUrl: config.dataUrl,
      fleet: config.fleet,
      device: config.id,
      birth,
      instance,
      agent: version,
      modelId: models.modelId,
      computing: () => models.computing,
      speed: models.speed,
      disclosures,
      attestation,
      heartbeatS: config.heartbeatS,
      reconnectMaxS: config.reconnectMaxS,
      progress,
      clock,
      random: seededRandom(nextSeed()),
      logger: logger.child({ component: 'link', broker: shownBroker(url) }),
    })
  if (config.telemetryS > 0)
    disclosures.reportTo(identities.bridges.flatMap((url) => brokerNodes(url).map((node) => new URL(node).host)))
  const links = new BridgeLinks(identities.bridges.map(linkBy), logger.child({ component: 'link' }))
  closers.push(() => links.close())
  return links
}
