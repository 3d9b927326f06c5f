/** A bridge and an agent under attack; all addresses are on loopback. */
export interface AttackTarget {
  readonly mqttUrl: string
  readonly httpUrl: string
  readonly dataUrl: string
  /** API of the honest device's agent; absent: the attacker is not on that device. */
  readonly agentUrl?: string | undefined
  /** Device that the attacker has enrolled, and its access token; absent: the attacker has proven no identity. */
  readonly device?: { readonly id: string; readonly token: string } | undefined
  /** API key of the attacker; absent: it has none. */
  readonly apiKey?: string | undefined
}

/** One attack that test/security and `brim bench attack` run. It is bounded, and ends when the signal is aborted. */
export interface Flood {
  readonly name: string
  /** Of the attacker's API key; absent: viewer. */
  readonly keyRole?: 'client'
  /** @returns what it did, such as connections opened and refused */
  run(target: AttackTarget, signal: AbortSignal): Promise<Readonly<Record<string, number>>>
}
