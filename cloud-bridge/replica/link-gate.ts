import { roleOf } from '../identity/acl.ts'
import type { Gate } from '../identity/gate.ts'

/** What a token proves, asked of the primary. @throws where that cannot be asked now */
export type Prove = (token: string) => string | undefined | Promise<string | undefined>

/**
 * Which devices may be connected to this node, whatever its role. Tokens are known to the primary alone, which is asked about each
 * new link. From then on the link stands as long as the device has the same key among the identities that every node has a copy of.
 */
export class LinkGate implements Gate {
  readonly authRequired: boolean
  #prove: Prove = () => undefined
  /** Device that may connect → its public key. */
  #keys: ReadonlyMap<string, string> = new Map()
  /** By token: of the links that are open. */
  readonly #proven = new Map<string, { readonly device: string; readonly publicKey: string | undefined }>()

  constructor(authRequired: boolean) {
    this.authRequired = authRequired
  }

  /** The node has another role. */
  proveBy(prove: Prove): void {
    this.#prove = prove
  }

  /** The identities have changed. */
  learn(keys: ReadonlyMap<string, string>): void {
    this.#keys = keys
  }

  /** @returns forgets the token, once its link is closed; undefined: it proves no device. @throws what `prove` throws */
  async admit(token: string): Promise<(() => void) | undefined> {
    if (!this.authRequired) return () => {}
    const role = roleOf((await this.#prove(token)) ?? '')
    if (role.kind !== 'device') return undefined
    const proof = { device: role.id, publicKey: this.#keys.get(role.id) }
    // Where its row has not been copied yet, the device has just enrolled, and tries again.
    if (proof.publicKey === undefined) return undefined
    this.#proven.set(token, proof)
    return () => {
      if (this.#proven.get(token) === proof) this.#proven.delete(token)
    }
  }

  subjectOf(token: string): string | undefined {
    const proof = this.#proven.get(token)
    return proof && this.#keys.get(proof.device) === proof.publicKey ? `device-${proof.device}` : undefined
  }
}
