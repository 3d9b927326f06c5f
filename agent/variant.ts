import type { TreeDrafter } from '../core/model/draft/drafter.ts'
import type { HatRules } from '../core/policy/hat/hat-steps.ts'
import type { SnpRoots } from './attestation/snp-certificates.ts'
import type { AdapterName, DeviceModel } from './hat/open-device-model.ts'
import type { OpenSmall } from './slm/local-model.ts'

/** What a benchmark or test puts in the place of an agent's own; each is absent in production. */
export interface AgentVariant {
  /** Whom reports of bridges must come from, in the place of AMD. */
  readonly attestationRoots?: SnpRoots | undefined
  readonly openSmall?: OpenSmall | undefined
  /** How a prompt is sent to the bridge. */
  readonly prefill?: HatRules['prefill'] | undefined
  /** Prompts resume no prefixes that the bridge has cached. */
  readonly forgetsPrefixes?: boolean | undefined
  /** The drafter's part of the bundle. Default: `adapter`. */
  readonly adapter?: AdapterName | undefined
  /** Answers wait for their session before they send rows. */
  readonly awaitsSessions?: boolean | undefined
  /** Answers are made by the small model and the server alone (DiSCo). */
  readonly withoutHat?: boolean | undefined
  /** A drafter of an answer, made of a model that is opened with its Medusa heads. */
  readonly treeDrafter?: ((model: DeviceModel) => TreeDrafter) | undefined
}
