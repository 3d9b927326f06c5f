import type { Evidence } from '../../core/wire/protocol/attestation.ts'

/** Makes evidence of the confidential virtual machine in which the bridge runs. */
export interface Attester {
  /**
   * @param data 64 bytes that the evidence is about
   * @param signal aborted when the device waits no longer: a request that has not begun is not made
   * @throws Error if there is none now
   */
  evidenceOf(data: Uint8Array, signal: AbortSignal): Promise<Evidence>
}
