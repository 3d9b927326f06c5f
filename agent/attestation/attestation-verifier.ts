import type { Evidence } from '../../core/wire/protocol/attestation.ts'
import type { AttestationPolicy, Product, Tcb } from './attestation-policy.ts'

/** Judges the evidence of one kind of confidential virtual machine. Pure: it opens nothing and has no clock. */
export interface AttestationVerifier {
  readonly kind: string
  verify(evidence: Evidence, expected: ExpectedEvidence): Verdict
}

export interface ExpectedEvidence {
  /** 64 bytes that the report must contain. */
  readonly data: Uint8Array
  readonly policy: AttestationPolicy
  /** UTC, in ms since 1970; undefined: the device's clock is not set, so that no certificate's dates are checked. */
  readonly nowMs: number | undefined
}

export type Verdict = { readonly kind: 'accepted'; readonly claims: Claims } | Refusal

export interface Refusal {
  readonly kind: 'refused'
  readonly reason: RefusalReason
  readonly detail: string
}

/** What a report proves. */
export interface Claims {
  readonly product: Product
  /** SHA-384 of what the virtual machine was started with, in hex. */
  readonly measurement: string
  readonly tcb: Tcb
}

/** By reason, what to try. */
export const remedies = {
  'no evidence':
    'does the bridge run in an SEV-SNP virtual machine, with this release, and end TLS itself? its log says why it has none',
  'not encrypted': 'enrol this device at the bridge over TLS: a report is bound to the TLS key',
  unsupported: 'this release verifies reports of AMD SEV-SNP on Milan, Genoa and Turin, versions 2 to 5',
  malformed: 'the report was cut or altered; update the bridge, or do not use it',
  certificates:
    'give the bridge the certificates of its processor with --attestation-certificates; are they those of this machine?',
  expired: "is this device's clock right? if so, fetch the certificate of the bridge's processor again",
  signature: 'the report was altered, or is of another processor: do not use this bridge',
  'not this connection':
    'does a proxy in front of the bridge end TLS? the bridge must do so itself; otherwise someone stands in between',
  'unsafe guest': 'start the virtual machine without debugging and without a migration agent, and the bridge at VMPL 0',
  'old firmware': "update the firmware of the bridge's machine, or lower the minimum in the file of --require-attestation",
  'unknown measurement': 'if you have updated the bridge, add its measurement to the file of --require-attestation',
} as const
export type RefusalReason = keyof typeof remedies
