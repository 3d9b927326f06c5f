/** Resolves proofs of identity. Without a gate, every client is what its client id claims. */
export interface Gate {
  /** Whether a proof is required now; it may be required only from the first enrolment on. */
  readonly authRequired: boolean
  /** MQTT client id (`device-…`, `bridge-…`), or `<role>-<name>` of an API key, that this bearer token proves now. */
  subjectOf(token: string): string | undefined
}

/** A gate that knows which clients are still allowed to be connected. */
export interface PresenceGate extends Gate {
  /** Whether this MQTT client id is the bridge's own, or that of a device with a grant. */
  isPresent(clientId: string): boolean
}

/** The token of an `Authorization: Bearer …` header. */
export const bearerOf = (authorization: string | undefined): string | undefined =>
  /^Bearer ([\w.-]+)$/.exec(authorization ?? '')?.[1]
