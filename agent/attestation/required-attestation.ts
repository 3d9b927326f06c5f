import type { KeyObject } from 'node:crypto'
import { clockIsSet } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { attestedData, type Evidence } from '../../core/wire/protocol/attestation.ts'
import type { AttestationPolicy } from './attestation-policy.ts'
import { type AttestationVerifier, type Claims, type RefusalReason, remedies, type Verdict } from './attestation-verifier.ts'

/** What one connection to a bridge has shown. */
export interface AttestedConnection {
  /** Of its data plane. */
  readonly url: string
  /** That the device has sent. */
  readonly nonce: string
  /** Of the bridge's TLS certificate; undefined: the connection is not encrypted. */
  readonly publicKey: KeyObject | undefined
  readonly evidence: Evidence | undefined
}

/** The owner's condition for every bridge that gets hidden states. */
export class RequiredAttestation {
  readonly #policy: AttestationPolicy
  readonly #verifier: AttestationVerifier
  readonly #wallMs: () => number

  /** @param wallMs UTC, in ms since 1970 */
  constructor(policy: AttestationPolicy, verifier: AttestationVerifier, wallMs: () => number = Date.now) {
    this.#policy = policy
    this.#verifier = verifier
    this.#wallMs = wallMs
  }

  /** @throws BrimError ATTESTATION_REFUSED */
  check(connection: AttestedConnection): Claims {
    const verdict = this.#verdictOn(connection)
    if (verdict.kind === 'accepted') return verdict.claims
    const { reason, detail } = verdict
    throw new BrimError('ATTESTATION_REFUSED', `the bridge at ${connection.url} is not trusted (${reason}): ${detail}`, {
      hint: remedies[reason],
    })
  }

  #verdictOn({ nonce, publicKey, evidence }: AttestedConnection): Verdict {
    const refused = (reason: RefusalReason, detail: string) => ({ kind: 'refused', reason, detail }) as const
    if (!publicKey) return refused('not encrypted', 'it is reached without TLS')
    if (!evidence) return refused('no evidence', 'it has shown no readable report of its processor')
    if (evidence.kind !== this.#verifier.kind) return refused('unsupported', `its evidence is of the kind ${evidence.kind}`)
    const nowMs = this.#wallMs()
    const data = attestedData(nonce, publicKey)
    return this.#verifier.verify(evidence, { data, policy: this.#policy, nowMs: clockIsSet(nowMs) ? nowMs : undefined })
  }
}
